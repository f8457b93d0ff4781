package safetensors

import (
	"encoding/binary"
	"math/rand/v2"
	"regexp"
	"runtime"
	"strconv"
	"testing"
	"time"

	"latentbeam/internal/system/testaid"
)

// piece is a name, a number, a text or a sign of a header.
var piece = regexp.MustCompile(`"[^"]*"|-?[0-9]+|[][{}:,]`)

// strange are the replacements for a piece of a header.
var strange = []string{"0", "-1", "1", "7", "8", "9223372036854775807", "18446744073709551616", "1e3", "4294967297", "null", "true", `""`,
	`"__metadata__"`, `"dtype"`, `"shape"`, `"data_offsets"`, `"F32"`, `"BF16"`, `"I64"`, `"F4"`, `"\u0000"`, "[", "]", "{", "}", "[]", "{}",
	"[0,0]", "[8,4]", ",", ""}

// mutant is a file with one to three changes in the header and a correct length, so that the reader meets the
// changes.
func mutant(random *rand.Rand, header, data []byte) []byte {
	for range 1 + random.IntN(3) {
		pieces := piece.FindAllIndex(header, -1)
		if len(pieces) == 0 {
			break
		}
		at := pieces[random.IntN(len(pieces))]
		new := strange[random.IntN(len(strange))]
		switch old := string(header[at[0]:at[1]]); random.IntN(4) {
		case 0: // another piece of the same header
			other := pieces[random.IntN(len(pieces))]
			new = string(header[other[0]:other[1]])
		case 1: // a number beside it
			if n, err := strconv.Atoi(old); err == nil {
				new = strconv.Itoa(n + random.IntN(9) - 4)
			}
		case 2: // twice
			new = old + "," + old
		}
		header = []byte(string(header[:at[0]]) + new + string(header[at[1]:]))
	}
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(out, header...), data...)
}

// TestPromiseP5: files of weights whose headers are wrong in every way are refused, or read as the format says: no panic, no
// memory beyond measure. LATENTBEAM_MUTANTS says how many files.
func TestPromiseP5(t *testing.T) {
	content, _, _ := sample(t)
	n := int(binary.LittleEndian.Uint64(content))
	header, data := content[lengthBytes:lengthBytes+n], content[lengthBytes+n:]
	mutants := testaid.Count(t, "LATENTBEAM_MUTANTS", 2000)
	random := rand.New(rand.NewPCG(5, uint64(mutants)))
	accepted, slowest := 0, time.Duration(0)
	for i := range mutants {
		bad := mutant(random, header, data)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		began := time.Now()
		_, _ = New(bad)
		slowest = max(slowest, time.Since(began))
		runtime.ReadMemStats(&after)
		if got, limit := after.TotalAlloc-before.TotalAlloc, uint64(4*len(bad)+1<<20); got > limit {
			t.Errorf("mutant %d: %d bytes allocated for a file of %d", i, got, len(bad))
		}
		if obeys(t, bad) {
			accepted++
		}
	}
	if accepted == 0 || accepted > mutants/2 {
		t.Error("the mutations test nothing")
	}
	t.Logf("P5: %d headers of safetensors: %d read as the format says, %d refused, slowest %v", mutants, accepted,
		mutants-accepted, slowest)
}

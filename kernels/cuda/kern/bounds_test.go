package kern

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// A multiprocessor has so many registers, which warps take in lots of 256: eight for each lane (CUDA C++ Programming
// Guide, technical specifications for each compute capability).
const (
	registersOfSM = 64 << 10
	registerLot   = 8
	mostThreads   = 1024
)

// registers are those that ptxas gave each kernel for each target, by "kernel target".
func registers(t *testing.T) map[string]int {
	t.Helper()
	text, err := os.ReadFile("ptxas.txt")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int{}
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n")[1:] {
		f := strings.Fields(line)
		if out[f[0]+" "+f[1]], err = strconv.Atoi(f[2]); err != nil {
			t.Fatalf("ptxas.txt: %q: %v", line, err)
		}
	}
	return out
}

// TestBounds: every kernel says how many threads its blocks have, and so many blocks as it says find registers on a
// multiprocessor; shared memory that products of warpgroups read begins at a multiple of 1024 bytes, as their swizzle wants.
func TestBounds(t *testing.T) {
	used := registers(t)
	entry := regexp.MustCompile(`(?s)\.entry (\w+)\([^)]*\)\s*\.maxntid (\d+)[^\n]*\n(?:\.minnctapersm (\d+)\n)?`)
	for _, target := range Targets {
		for _, unit := range units(t) {
			ptx, err := PTX(target, unit)
			if err != nil {
				t.Fatal(err)
			}
			text := string(ptx)
			found := entry.FindAllStringSubmatch(text, -1)
			if n := strings.Count(text, ".entry "); n != len(found) {
				t.Errorf("%s for %s: %d kernels, %d of them with bounds", unit, target, n, len(found))
			}
			for _, m := range found {
				threads, _ := strconv.Atoi(m[2])
				blocks, _ := strconv.Atoi(m[3])
				blocks = max(blocks, 1)
				lots := (used[m[1]+" "+target] + registerLot - 1) / registerLot * registerLot
				if threads%32 != 0 || threads > mostThreads || lots == 0 || lots*threads*blocks > registersOfSM {
					t.Errorf("%s for %s: %d blocks of %d threads with %d registers each", m[1], target, blocks, threads, lots)
				}
			}
			if strings.Contains(text, "wgmma") && !strings.Contains(text, ".shared .align 1024 .b8 lb_shared_") {
				t.Errorf("%s for %s: products of warpgroups, and shared memory that may begin anywhere", unit, target)
			}
		}
	}
}

package safetensors

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// build returns a file of the given header and data bytes.
func build(header string, data int) []byte {
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(out, header...), make([]byte, data)...)
}

// lengthOnly is a file that claims a header of n bytes and has none.
func lengthOnly(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }

// one returns a header of the tensor "a".
func one(dtype, shape, offsets string) string {
	return fmt.Sprintf(`{"a":{"dtype":%s,"shape":%s,"data_offsets":%s}}`, dtype, shape, offsets)
}

// two returns a header of two U8 tensors of 4 bytes with the given offsets.
func two(first, second string) string {
	return fmt.Sprintf(`{"a":{"dtype":"U8","shape":[4],"data_offsets":%s},`+
		`"b":{"dtype":"U8","shape":[4],"data_offsets":%s}}`, first, second)
}

// malformed are files that must be refused, with a part of the reason.
var malformed = []struct {
	name    string
	content []byte
	want    string
}{
	{"empty file", nil, "too few"},
	{"seven bytes", make([]byte, 7), "too few"},
	{"eight zero bytes", make([]byte, 8), "does not begin with {"},
	{"header length 2^63", lengthOnly(1 << 63), "over the limit"},
	{"header length 2^64-1", lengthOnly(1<<64 - 1), "over the limit"},
	{"header of 100 MB and a byte", lengthOnly(maxHeader + 1), "over the limit"},
	{"header beyond the end", lengthOnly(100), "cut short"},
	{"zip pickle", []byte("PK\x03\x04\x00\x00\x08\x08\x00\x00"), "PyTorch pickle"},
	{"bare pickle", []byte("\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."), "PyTorch pickle"},
	{"Git LFS pointer", []byte("version https://git-lfs.github.com/spec/v1\n"), "git lfs pull"},
	{"text", []byte("hello, this is a text file"), "not a safetensors file"},
	{"space before the header", build(" {}", 0), "does not begin with {"},
	{"array", build("[]", 0), "does not begin with {"},
	{"not closed", build(`{"a":`, 0), "the end"},
	{"text after the header", build("{}x", 0), "something follows"},
	{"second object", build("{}{}", 0), "something follows"},
	{"zero byte after the header", build("{}\x00", 0), "something follows"},
	{"bad UTF-8 in a name", build("{\"\xff\":{}}", 0), "UTF-8"},
	{"bad UTF-8 in a dtype", build(one("\"\xc3\"", "[0]", "[0,0]"), 0), "UTF-8"},
	{"control character", build("{\"a\nb\":{}}", 0), "control character"},
	{"wrong escape", build(`{"a\x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}`, 0), "escape"},
	{"string without end", build(`{"a`, 0), "does not end"},
	{"string ending in a backslash", build(`{"a\`, 0), "does not end"},
	{"trailing comma", build(`{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},}`, 0), `want '"'`},
	{"missing comma", build(one(`"U8"`, "[0 0]", "[0,0]"), 0), "want ','"},
	{"tensor is null", build(`{"a":null}`, 0), "want '{'"},
	{"tensor is a number", build(`{"a":1}`, 0), "want '{'"},
	{"no data_offsets", build(`{"a":{"dtype":"U8","shape":[0]}}`, 0), "want dtype, shape and data_offsets"},
	{"nothing in a tensor", build(`{"a":{}}`, 0), "want dtype, shape and data_offsets"},
	{"unknown key", build(`{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0],"x":1}}`, 0), "unknown key"},
	{"key twice", build(`{"a":{"dtype":"U8","dtype":"U8","shape":[0],"data_offsets":[0,0]}}`, 0), "twice"},
	{"tensor twice", build(`{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},`+
		`"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}`, 0), "twice"},
	{"tensor twice, once escaped", build(`{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},`+
		`"\u0061":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}`, 0), "twice"},
	{"metadata twice", build(`{"__metadata__":{},"__metadata__":{}}`, 0), "twice"},
	{"metadata key twice", build(`{"__metadata__":{"a":"","a":""}}`, 0), "twice"},
	{"metadata holds a number", build(`{"__metadata__":{"a":1}}`, 0), `want '"'`},
	{"metadata holds an object", build(`{"__metadata__":{"a":{}}}`, 0), `want '"'`},
	{"unknown dtype", build(one(`"F31"`, "[1]", "[0,4]"), 4), "unknown"},
	{"lower case dtype", build(one(`"f32"`, "[1]", "[0,4]"), 4), "unknown"},
	{"dtype is a number", build(one("32", "[1]", "[0,4]"), 4), `want '"'`},
	{"negative axis", build(one(`"U8"`, "[-1]", "[0,4]"), 4), "non-negative integer"},
	{"fractional axis", build(one(`"U8"`, "[1.5]", "[0,4]"), 4), "want ','"},
	{"exponent", build(one(`"U8"`, "[1e3]", "[0,4]"), 4), "want ','"},
	{"leading zero", build(one(`"U8"`, "[04]", "[0,4]"), 4), "begins with 0"},
	{"number beyond 63 bits", build(one(`"U8"`, "[9223372036854775808]", "[0,4]"), 4), "too large"},
	{"nested shape", build(one(`"U8"`, "[[4]]", "[0,4]"), 4), "non-negative integer"},
	{"too many axes", build(one(`"U8"`, "["+strings.Repeat("1,", maxAxes)+"1]", "[0,1]"), 1), "more than"},
	{"shape overflows 64 bits", build(one(`"F64"`, "[4294967296,4294967296,1]", "[0,8]"), 8), "overflows"},
	{"shape overflows to 0", build(one(`"U8"`, "[4294967296,4294967296]", "[0,0]"), 0), "overflows"},
	{"one offset", build(one(`"U8"`, "[4]", "[4]"), 4), "want 2"},
	{"three offsets", build(one(`"U8"`, "[4]", "[0,4,4]"), 4), "more than 2"},
	{"offsets the wrong way round", build(one(`"U8"`, "[4]", "[4,0]"), 4), "cut short or its header is wrong"},
	{"offsets beyond the end", build(one(`"U8"`, "[4]", "[0,4]"), 3), "cut short"},
	{"length does not fit the shape", build(one(`"F32"`, "[2]", "[0,4]"), 4), "want 8"},
	{"hole before the first", build(one(`"U8"`, "[4]", "[1,5]"), 5), "hole"},
	{"hole", build(two("[0,4]", "[5,9]"), 9), "hole"},
	{"overlap", build(two("[0,4]", "[3,7]"), 7), "inside"},
	{"same bytes twice", build(two("[0,4]", "[0,4]"), 4), "inside"},
	{"bytes after the last", build(two("[4,8]", "[0,4]"), 9), "1 bytes follow"},
	{"bytes and no tensor", build("{}", 1), "1 bytes follow"},
	{"deep arrays", build(strings.Repeat("[", 1<<20), 0), "does not begin with {"},
	{"deep objects", build(strings.Repeat(`{"a":`, 1<<18), 0), "unknown key"},
	{"deep metadata", build(`{"__metadata__":{"a":`+strings.Repeat("[", 1<<20), 0), `want '"'`},
}

func TestMalformedFilesAreRefused(t *testing.T) {
	for _, c := range malformed {
		t.Run(c.name, func(t *testing.T) {
			_, err := New(c.content)
			if err == nil {
				t.Fatal("the file passed")
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %q does not say %q", err, c.want)
			}
			if len(err.Error()) > 400 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			path := filepath.Join(t.TempDir(), "model.safetensors")
			if err := os.WriteFile(path, c.content, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(path); err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("Open gives %v, want an error with the path", err)
			}
		})
	}
}

func TestOpenRefusesWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{dir, filepath.Join(dir, "absent")} {
		if _, err := Open(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: error %v", path, err)
		}
	}
}

// TestMemoryIsBoundedByTheHeader: tensors, axes, metadata and names by the thousand cost at most four times
// the header's own bytes and 1 MiB (promise P5), whether the file is good or bad.
func TestMemoryIsBoundedByTheHeader(t *testing.T) {
	const empty = `":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}`
	list := func(n int, format string) string {
		var out strings.Builder
		for i := range n {
			out.WriteString(strings.Repeat(",", min(i, 1)))
			fmt.Fprintf(&out, format, i)
		}
		return out.String()
	}
	long := strings.Repeat("n", 1<<22)
	for _, c := range []struct {
		name, header string
		good         bool
	}{
		{"many tensors", "{" + list(100_000, `"%x`+empty) + "}", true},
		{"many tensors, cut", "{" + list(100_000, `"%x`+empty), false},
		{"many axes", "{" + list(50_000, `"%x":{"dtype":"U8","shape":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0],`+
			`"data_offsets":[0,0]}`) + "}", true},
		{"much metadata", `{"__metadata__":{` + list(maxMetadata, `"%x":""`) + "}}", true},
		{"too much metadata", `{"__metadata__":{` + list(1_000_000, `"%x":""`) + "}}", false},
		{"long name", `{"` + long + empty + "}", true},
		{"long name, cut", `{"` + long, false},
		{"long name, escaped", `{"\u00fc` + long + empty + "}", true},
		{"long dtype", `{"a":{"dtype":"` + long + `","shape":[0],"data_offsets":[0,0]}}`, false},
		{"names of keys only", `{"` + strings.Repeat(`\"data_offsets\"`, 100_000) + `":0}`, false},
	} {
		content := build(c.header, 0)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f, err := New(content)
		runtime.ReadMemStats(&after)
		if (err == nil) != c.good {
			t.Errorf("%s: error %v", c.name, err)
		}
		if got, limit := after.TotalAlloc-before.TotalAlloc, uint64(4*len(c.header)+1<<20); got > limit {
			t.Errorf("%s: %d bytes allocated for a header of %d", c.name, got, len(c.header))
		}
		runtime.KeepAlive(f)
	}
}

func TestWriteRefusesWrongTensors(t *testing.T) {
	for name, c := range map[string]struct {
		key string
		t   Tensor
	}{
		"length":        {"a", Tensor{DType: "F32", Shape: []int{2}, Data: make([]byte, 4)}},
		"dtype":         {"a", Tensor{DType: "F31", Shape: []int{1}, Data: make([]byte, 4)}},
		"negative axis": {"a", Tensor{DType: "U8", Shape: []int{-1, -4}, Data: make([]byte, 4)}},
		"reserved name": {metadataKey, Tensor{DType: "U8", Shape: []int{4}, Data: make([]byte, 4)}},
	} {
		if err := Write(&bytes.Buffer{}, map[string]Tensor{c.key: c.t}, nil); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// FuzzNew: no content makes New panic, and accepted content follows the format and is unchanged by Write.
func FuzzNew(f *testing.F) {
	content, _, _ := sample(f)
	f.Add(content)
	f.Add(build("{}   ", 0))
	for _, c := range malformed {
		if len(c.content) < 1<<10 {
			f.Add(c.content)
		}
	}
	f.Fuzz(func(t *testing.T, content []byte) { obeys(t, content) })
}

// obeys checks what New makes of a content, and reports whether it accepts it.
func obeys(t *testing.T, content []byte) (accepted bool) {
	file, err := New(content)
	if err != nil {
		return false
	}
	tensors, total := map[string]Tensor{}, 0
	for _, name := range file.Names() {
		x, ok := file.Tensor(name)
		size, err := byteSize(entry{dtype: x.DType, shape: x.Shape})
		if !ok || err != nil || size != uint64(len(x.Data)) {
			t.Fatalf("tensor %q: %v %v with %d bytes", name, x.DType, x.Shape, len(x.Data))
		}
		tensors[name] = x
		total += len(x.Data)
	}
	if header := binary.LittleEndian.Uint64(content); uint64(total)+header+lengthBytes != uint64(len(content)) {
		t.Fatalf("%d bytes of tensors in a file of %d", total, len(content))
	}
	var out bytes.Buffer
	if err := Write(&out, tensors, file.Metadata()); err != nil {
		t.Fatal(err)
	}
	again, err := New(out.Bytes())
	if err != nil {
		t.Fatalf("what Write wrote is refused: %v", err)
	}
	for name, x := range tensors {
		if y, ok := again.Tensor(name); !ok || !bytes.Equal(x.Data, y.Data) {
			t.Fatalf("tensor %q changed", name)
		}
	}
	return true
}

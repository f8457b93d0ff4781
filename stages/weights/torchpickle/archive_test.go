package torchpickle

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	tt "latentbeam/stages/weights/torchpickle/torchtest"
)

// small is the pickle of a state dict of one tensor in storage 0.
var small = tt.Pickle(one(tt.View(floats, 0, []int{3, 4}, []int{4, 1})))

// patched returns content with some bytes replaced at an offset after the last mark.
func patched(content []byte, mark string, offset int, with string) []byte {
	out := bytes.Clone(content)
	at := bytes.LastIndex(out, []byte(mark))
	copy(out[at+offset:], with)
	return out
}

// archive is an archive of the pickle and what else is given by name and content.
func archive(t testing.TB, files ...string) []byte {
	names, contents := []string{"data.pkl"}, [][]byte{small}
	for i := 0; i < len(files); i += 2 {
		names, contents = append(names, files[i]), append(contents, []byte(files[i+1]))
	}
	return tt.Archive(t, "archive/", names, contents)
}

// deflated is an archive whose storage is 1 GiB of zeros in compressed form.
func deflated(t testing.TB) []byte {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for name, content := range map[string][]byte{"archive/data.pkl": small, "archive/data/0": make([]byte, 1<<26)} {
		f, err := w.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// end64 puts an end of archive for 64 bits, and a locator that says where it is, before the end of content.
func end64(content []byte, where, count, size, offset uint64) []byte {
	at := bytes.LastIndex(content, []byte(endMark))
	long := binary.LittleEndian.AppendUint64
	extra := append([]byte(end64Mark), make([]byte, 28)...)
	extra = long(long(long(extra, count), size), offset)
	if where == 0 {
		where = uint64(at)
	}
	locator := long(append([]byte(locatorMark), 0, 0, 0, 0), where)
	locator = append(locator, 1, 0, 0, 0)
	return bytes.Join([][]byte{content[:at], extra, locator, content[at:]}, nil)
}

func TestMalformedArchivesAreRefused(t *testing.T) {
	storage := strings.Repeat("\x00", 48)
	good := archive(t, "data/0", storage)
	if _, err := New(good, ""); err != nil {
		t.Fatalf("the file that the others are made of: %v", err)
	}
	directory := bytes.Index(good, []byte(centralMark))
	full := "\xff\xff\xff\xff"
	for _, c := range []struct {
		name    string
		content []byte
		want    string
	}{
		{"cut in the end", good[:len(good)-1], "end of the archive is missing"},
		{"cut in the directory", good[:directory+10], "end of the archive is missing"},
		{"cut in the pickle", good[:50], "end of the archive is missing"},
		{"only a mark", []byte(localMark), "end of the archive is missing"},
		{"zip bomb", deflated(t), "compressed (method 8)"},
		{"encrypted", patched(good, centralMark, 8, "\x01"), "encrypted"},
		{"a compressed size", patched(good, centralMark, 20, "\x01"), "claims 48"},
		{"a file of 4 GiB", patched(patched(good, centralMark, 20, "\xfe\xff\xff\xff"), centralMark, 24,
			"\xfe\xff\xff\xff"),
			"beyond the end"},
		{"a file of 64 bits without them", patched(good, centralMark, 24, full), "claims 4294967295"},
		{"a file elsewhere", patched(good, centralMark, 42, "\xf0\xff\xff\x00"), "beyond the end"},
		{"an invalid file", patched(good, centralMark, 42, "\x01"), "header is damaged"},
		{"more files than there are", patched(good, endMark, 10, "\x03"), "list of files is damaged"},
		{"65535 files", patched(good, endMark, 10, "\xff\xff"), "list of files is damaged"},
		{"a list of 4 GiB", patched(good, endMark, 12, full), "over the limits"},
		{"a list elsewhere", patched(good, endMark, 16, "\x00\x00\x00\x70"), "beyond the end"},
		{"an invalid list", patched(good, endMark, 16, "\x01"), "list of files is damaged"},
		{"a long name", patched(good, centralMark, 28, "\xff\xff"), "list of files is damaged"},
		{"a long extra field", patched(good, centralMark, 30, "\xff\xff"), "list of files is damaged"},
		{"a locator to nowhere", end64(good, 1<<63, 2, 1, 1), "end of the archive is damaged"},
		{"a locator to something else", end64(good, 1, 2, 1, 1), "end of the archive is damaged"},
		{"2^64 files", end64(good, 0, 1<<64-1, 100, uint64(directory)), "over the limits"},
		{"a list of 2^63 bytes", end64(good, 0, 2, 1<<63, uint64(directory)), "over the limits"},
		{"a list at 2^64-1", end64(good, 0, 2, 100, 1<<64-1), "beyond the end"},
		{"a file twice", archive(t, "data/0", storage, "data/0", storage), "there twice"},
		{"two pickles", tt.Archive(t, "", []string{"a/data.pkl", "b/data.pkl"}, [][]byte{small, small}),
			"two data.pkl"},
		{"no pickle", tt.Archive(t, "a/", []string{"data/0"}, [][]byte{nil}), "without data.pkl"},
		{"a pickle too deep", tt.Archive(t, "a/b/", []string{"data.pkl"}, [][]byte{small}),
			"without data.pkl"},
		{"an empty archive", append([]byte(localMark), tt.Archive(t, "", nil, nil)...), "without data.pkl"},
		{"big-endian", archive(t, "data/0", storage, "byteorder", "big"), `byte order "big"`},
		{"a program", archive(t, "data/0", storage, "constants.pkl", "x"), "TorchScript"},
		{"storage missing", archive(t), "not in the archive"},
		{"storage too short", archive(t, "data/0", storage[1:]), "has 47 bytes"},
		{"storage too long", archive(t, "data/0", storage+"x"), "has 49 bytes"},
		{"an empty pickle", tt.Zip(t, nil), "cut short"},
	} {
		t.Run(c.name, func(t *testing.T) { refused(t, c.content, c.want) })
	}
}

// TestArchiveOf64Bits: the end of an archive can be in 64-bit form, as torch writes it, and lengths that do not fit 32 bits
// are read.
func TestArchiveOf64Bits(t *testing.T) {
	good := archive(t, "data/0", strings.Repeat("\x00", 48))
	directory := bytes.Index(good, []byte(centralMark))
	size := bytes.LastIndex(good, []byte(endMark)) - directory
	wide := end64(good, 0, 2, uint64(size), uint64(directory))
	if _, err := New(wide, ""); err != nil {
		t.Error(err)
	}
	e := entry{name: "x", size: 1<<32 - 1, packed: 1<<32 - 1, local: 7}
	extra := []byte("\xfe\xca\x01\x00x\x01\x00\x10\x00" + long(1<<33) + long(1<<33))
	if err := e.widen(extra); err != nil || e.size != 1<<33 || e.packed != 1<<33 || e.local != 7 {
		t.Errorf("%+v, %v", e, err)
	}
	for _, bad := range []string{"\x01\x00\x10", "\x01\x00\x10\x00" + long(1), "\x01\x00\x00\x00"} {
		e := entry{name: "x", size: 1<<32 - 1, packed: 1<<32 - 1}
		if err := e.widen([]byte(bad)); err == nil && e.size != 1<<32-1 {
			t.Errorf("extra field %q: %+v", bad, e)
		}
	}
}

func TestMalformedLegacyFilesAreRefused(t *testing.T) {
	data := make([]byte, 48)
	good := tt.Legacy(small, 4, data)
	if _, err := New(good, ""); err != nil {
		t.Fatalf("the file that the others are made of: %v", err)
	}
	head := good[:2+len(magic)]
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	version, system := tt.Pickle(tt.Int(1001)), tt.Pickle(tt.Dict(tt.Text("little_endian"), tt.True))
	start := join(head, version, system)
	keys := tt.Pickle(tt.List(tt.Text("0")))
	storage := join([]byte(long(12)), data)
	part := tt.Tuple(tt.Text("storage"), tt.Global("torch", "FloatStorage"), tt.Text("0"), tt.Text("cpu"),
		tt.Int(12), tt.Tuple(tt.Text("v"), tt.Int(0), tt.Int(4))) + "Q"
	for _, c := range []struct {
		name    string
		content []byte
		want    string
	}{
		{"nothing behind the magic number", head, "cut short"},
		{"version", join(head, tt.Pickle(tt.Int(1002)), system, small, keys, storage), "not 1001"},
		{"big-endian", join(head, version, tt.Pickle(tt.Dict(tt.Text("little_endian"), "\x89")), small, keys, storage),
			"big-endian"},
		{"no order", join(head, version, tt.Pickle("}"), small, keys, storage), "big-endian"},
		{"no machine", join(head, version, tt.Pickle("N"), small, keys, storage), "a dict about the machine"},
		{"no list", join(start, small), "cut short"},
		{"list is None", join(start, small, tt.Pickle("N"), storage), "the list of storages"},
		{"list of numbers", join(start, small, tt.Pickle(tt.List(tt.Int(0))), storage),
			"the name of a storage"},
		{"empty list", join(start, small, tt.Pickle("]")), `storage "0" is not in the file`},
		{"listed twice", join(start, small, tt.Pickle(tt.List(tt.Text("0"), tt.Text("0"))), storage, storage),
			"listed twice"},
		{"another listed", join(start, small, tt.Pickle(tt.List(tt.Text("1"))), storage), "not used"},
		{"no storage", join(start, small, keys), "is missing"},
		{"storage cut", good[:len(good)-1], "cut short"},
		{"storage of another length", join(start, small, keys, []byte(long(11)), data), "has 11 elements"},
		{"storage of 2^64-1", join(start, small, keys, []byte(long(1<<64-1)), data),
			"elements, the pickle says 12"},
		{"bytes behind", append(bytes.Clone(good), 'x'), "1 bytes follow"},
		{"a view of a storage", join(start, tt.Pickle(one(tt.View(part, 0, nil, nil))), keys, storage), "before 0.4"},
	} {
		t.Run(c.name, func(t *testing.T) { refused(t, c.content, c.want) })
	}
}

package safetensors

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// shards writes files, an index or a safetensors file of U8 tensors by name, and returns the index's path.
func shards(t testing.TB, files map[string]any) string {
	dir := t.TempDir()
	for name, content := range files {
		var out bytes.Buffer
		switch content := content.(type) {
		case string:
			out.WriteString(content)
		case map[string]byte:
			tensors := map[string]Tensor{}
			for tensor, value := range content {
				tensors[tensor] = Tensor{DType: "U8", Shape: []int{1}, Data: []byte{value}}
			}
			if err := Write(&out, tensors, map[string]string{"format": "pt"}); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, name), out.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "model.safetensors.index.json")
}

const goodIndex = `{"metadata": {"total_size": 3, "deep": [{"a": [1, null]}]},
	"weight_map": {"b": "1.safetensors", "a": "2.safetensors", "c": "2.safetensors"}}`

func TestShards(t *testing.T) {
	files := map[string]any{"model.safetensors.index.json": goodIndex, "unused.safetensors": "junk",
		"1.safetensors": map[string]byte{"b": 11}, "2.safetensors": map[string]byte{"a": 22, "c": 33}}
	path := shards(t, files)
	f, err := OpenIndex(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"a", "b", "c"}; !slices.Equal(f.Names(), want) {
		t.Errorf("names %q, want %q", f.Names(), want)
	}
	for name, want := range map[string]byte{"a": 22, "b": 11, "c": 33} {
		if x, ok := f.Tensor(name); !ok || !bytes.Equal(x.Data, []byte{want}) {
			t.Errorf("tensor %q is %v, want %d", name, x, want)
		}
	}
	if f.Metadata()["format"] != "pt" {
		t.Errorf("metadata %v", f.Metadata())
	}
	digest := f.Digest()
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	var whole bytes.Buffer
	all := map[string]Tensor{}
	for name, value := range map[string]byte{"a": 22, "b": 11, "c": 33} {
		all[name] = Tensor{DType: "U8", Shape: []int{1}, Data: []byte{value}}
	}
	if err := Write(&whole, all, nil); err != nil {
		t.Fatal(err)
	}
	if one, err := New(whole.Bytes()); err != nil || one.Digest() != digest {
		t.Errorf("the same tensors in one file have another digest, %v", err)
	}
	for name, change := range map[string]any{
		"1.safetensors": map[string]byte{"b": 12}, "2.safetensors": map[string]byte{"a": 22, "c": 34},
	} {
		old := files[name]
		files[name] = change
		f, err := OpenIndex(shards(t, files))
		if err != nil {
			t.Fatal(err)
		}
		if f.Digest() == digest {
			t.Errorf("another %s has the same digest", name)
		}
		files[name] = old
		f.Close()
	}
}

// malformedIndexes are indexes that must be refused, with a part of the reason.
var malformedIndexes = []struct{ name, index, want string }{
	{"empty", "", "EOF"},
	{"array", "[]", "want {"},
	{"no map", "{}", "no weight_map"},
	{"empty map", `{"weight_map": {}}`, "no weight_map"},
	{"map is a list", `{"weight_map": ["a"]}`, "want {"},
	{"map twice", `{"weight_map": {"a": "s"}, "weight_map": {"a": "s"}}`, "twice"},
	{"file is a number", `{"weight_map": {"a": 1}}`, "name of a file"},
	{"file is null", `{"weight_map": {"a": null}}`, "name of a file"},
	{"file is a list", `{"weight_map": {"a": ["s"]}}`, "name of a file"},
	{"file is empty", `{"weight_map": {"a": ""}}`, "plain name"},
	{"file above", `{"weight_map": {"a": "../s"}}`, "plain name"},
	{"file is above", `{"weight_map": {"a": ".."}}`, "plain name"},
	{"file is the directory", `{"weight_map": {"a": "."}}`, "plain name"},
	{"file below", `{"weight_map": {"a": "d/s"}}`, "plain name"},
	{"absolute file", `{"weight_map": {"a": "/etc/passwd"}}`, "plain name"},
	{"file above, Windows", `{"weight_map": {"a": "..\\s"}}`, "plain name"},
	{"drive", `{"weight_map": {"a": "c:s"}}`, "plain name"},
	{"NUL in a file", `{"weight_map": {"a": "s\u0000"}}`, "plain name"},
	{"tensor in two shards of the index", `{"weight_map": {"a": "s", "a": "t"}}`, "two shards, s and t"},
	{"same, escaped", `{"weight_map": {"a": "s", "\u0061": "t"}}`, "two shards, s and t"},
	{"cut", `{"weight_map": {"a": "s"`, "EOF"},
	{"text behind", `{"weight_map": {"a": "s"}} x`, "something follows"},
	{"second object", `{"weight_map": {"a": "s"}}{}`, "something follows"},
	{"deep metadata", `{"metadata": ` + strings.Repeat("[", 1<<20), "EOF"},
	{"deep map", `{"weight_map": {"a": ` + strings.Repeat("[", 1<<20), "name of a file"},
	{"shard missing", `{"weight_map": {"a": "s.safetensors"}}`, "shard s.safetensors is missing"},
	{"tensor not in its shard", `{"weight_map": {"a": "1.safetensors", "z": "1.safetensors"}}`,
		`tensor "z" is in shard 1.safetensors, which does not hold it`},
	{"tensor in two shards", `{"weight_map": {"a": "1.safetensors", "b": "2.safetensors"}}`,
		`tensor "a" is in two shards`},
	{"tensor not in the index", `{"weight_map": {"b": "2.safetensors"}}`, "which the index does not list"},
	{"shard is no safetensors", `{"weight_map": {"a": "junk"}}`, "too few"},
	{"shard is a directory", `{"weight_map": {"a": "dir"}}`, "it is a folder, not a regular file"},
}

func TestMalformedIndexesAreRefused(t *testing.T) {
	for _, c := range malformedIndexes {
		t.Run(c.name, func(t *testing.T) {
			path := shards(t, map[string]any{"model.safetensors.index.json": c.index, "junk": "junk",
				"1.safetensors": map[string]byte{"a": 1}, "2.safetensors": map[string]byte{"a": 1, "b": 1}})
			if err := os.Mkdir(filepath.Join(filepath.Dir(path), "dir"), 0o700); err != nil {
				t.Fatal(err)
			}
			_, err := OpenIndex(path)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %v does not say %q", err, c.want)
			}
			if len(err.Error()) > 600 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
		})
	}
	if _, err := OpenIndex(filepath.Join(t.TempDir(), "absent")); err == nil {
		t.Error("an index that is not there was opened")
	}
}

// TestIndexMemoryIsBounded: the memory for an index is a small multiple of its size, and too many shards are refused before
// any is opened.
func TestIndexMemoryIsBounded(t *testing.T) {
	var many strings.Builder
	many.WriteString(`{"weight_map": {"x": "s"`)
	for i := range 200_000 {
		fmt.Fprintf(&many, `,"t%d": "s%d"`, i, i%10_000)
	}
	for name, index := range map[string]string{
		"many shards": many.String() + "}}",
		"deep":        `{"metadata": ` + strings.Repeat(`{"a":`, 1<<20),
		"long text":   `{"metadata": "` + strings.Repeat("n", 1<<22),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := ParseIndex([]byte(index))
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("%s: no error", name)
		}
		if got, limit := after.TotalAlloc-before.TotalAlloc, uint64(64*len(index)+1<<20); got > limit {
			t.Errorf("%s: %d bytes allocated for an index of %d", name, got, len(index))
		}
	}
}

// FuzzParseIndex: no index makes ParseIndex panic, and every file that it names is beside the index.
func FuzzParseIndex(f *testing.F) {
	f.Add([]byte(goodIndex))
	for _, c := range malformedIndexes {
		if len(c.index) < 1<<10 {
			f.Add([]byte(c.index))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		files, err := ParseIndex(data)
		if err != nil {
			return
		}
		for _, file := range files {
			if filepath.Base(file) != file || filepath.Dir(filepath.Join("d", file)) != "d" {
				t.Fatalf("file %q is in another directory", file)
			}
		}
	})
}

package safetensors

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// sample is a file of three dtypes with names that sort against their sizes.
func sample(t testing.TB) ([]byte, map[string]Tensor, map[string]string) {
	tensors := map[string]Tensor{
		"a.mask":   {DType: "U8", Shape: []int{3}, Data: []byte{1, 2, 3}},
		"b.weight": {DType: "F32", Shape: []int{2, 1}, Data: []byte{0, 0, 128, 63, 0, 0, 0, 64}},
		"c.half":   {DType: "BF16", Shape: []int{1}, Data: []byte{128, 63}},
		"d.scalar": {DType: "F32", Shape: []int{}, Data: []byte{0, 0, 0, 0}},
		"e.empty":  {DType: "F32", Shape: []int{0, 7}, Data: []byte{}},
		"f \"ü\"":  {DType: "F64", Shape: []int{1}, Data: make([]byte, 8)},
	}
	metadata := map[string]string{"format": "pt", "note": "line\nbreak"}
	var out bytes.Buffer
	if err := Write(&out, tensors, metadata); err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), tensors, metadata
}

func TestRoundTrip(t *testing.T) {
	content, tensors, metadata := sample(t)
	path := filepath.Join(t.TempDir(), "sample.safetensors")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	mapped, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer mapped.Close()
	embedded, err := New(content)
	if err != nil {
		t.Fatal(err)
	}
	const digest = "646cb9bf988bdfea25e23f2e98d93bf75181b0429dadf3d2473dbb2e6466783a"
	for name, f := range map[string]*File{"mapped": mapped, "embedded": embedded} {
		if want := slices.Sorted(maps.Keys(tensors)); !slices.Equal(f.Names(), want) {
			t.Errorf("%s: names %q, want %q", name, f.Names(), want)
		}
		for key, want := range tensors {
			got, ok := f.Tensor(key)
			if !ok || got.DType != want.DType || !slices.Equal(got.Shape, want.Shape) ||
				!bytes.Equal(got.Data, want.Data) {
				t.Errorf("%s: tensor %q is %v, want %v", name, key, got, want)
			}
		}
		if !maps.Equal(f.Metadata(), metadata) {
			t.Errorf("%s: metadata %v, want %v", name, f.Metadata(), metadata)
		}
		if got := f.Digest(); got != digest {
			t.Errorf("%s: digest %s, want %s", name, got, digest)
		}
		if _, ok := f.Tensor("absent"); ok {
			t.Errorf("%s: a tensor that is not in the file was found", name)
		}
	}
	if err := mapped.Close(); err != nil {
		t.Error(err)
	}
	if _, ok := mapped.Tensor("a.mask"); ok {
		t.Error("a closed file still gives tensors")
	}
}

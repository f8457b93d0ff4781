package gguf

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"latentbeam/kernels"
	"latentbeam/stages/weights/gguf/gguftest"
	"latentbeam/stages/weights/safetensors"
)

// golden is testdata/types.gguf, which the Python package wrote, and its tensors in float32, widened by that package.
func golden(t testing.TB) (content []byte, want map[string][]byte) {
	t.Helper()
	content, err := os.ReadFile("testdata/types.gguf")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile("testdata/types.json")
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	if err := json.Unmarshal(data, &texts); err != nil {
		t.Fatal(err)
	}
	delete(texts, "_about")
	want = map[string][]byte{}
	for name, text := range texts {
		if want[name], err = base64.StdEncoding.DecodeString(text); err != nil {
			t.Fatal(err)
		}
	}
	return content, want
}

// TestTypesAreThoseOfPython: every type gives the bits of gguf.quants.dequantize, starting at any element.
func TestTypesAreThoseOfPython(t *testing.T) {
	content, want := golden(t)
	f, err := New(content)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Names()) != len(want) || len(want) != len(types)-5+2 { // without F64 and whole numbers; with conv and reshaped
		t.Errorf("%d tensors, want %d", len(f.Names()), len(want))
	}
	for name, bits := range want {
		x, ok := f.Tensor(name)
		if !ok {
			t.Errorf("%s is missing", name)
			continue
		}
		if x.Packed == nil {
			if got := kernels.F32.Bytes(kernels.DTypes[x.DType].Values(x.Data)); !bytes.Equal(got, bits) {
				t.Errorf("%s: other bits than Python has", name)
			}
			continue
		}
		if wide := x.Widened(); wide.DType != "F32" || !bytes.Equal(wide.Data, bits) {
			t.Errorf("%s: other bits than Python has", name)
		}
		n := len(bits) / 4
		for _, r := range [][2]int{{0, 1}, {1, 40}, {n - 3, n}, {31, 33}, {n / 2, n}, {5, 5}, {0, n}} {
			part := make([]float32, r[1]-r[0])
			x.Packed.Decode(part, x.Data, r[0])
			if !bytes.Equal(kernels.F32.Bytes(part), bits[4*r[0]:4*r[1]]) {
				t.Errorf("%s: elements %v differ from those of the whole", name, r)
			}
		}
	}
	conv, _ := f.Tensor("conv")
	reshaped, _ := f.Tensor("reshaped")
	if !slices.Equal(conv.Shape, []int{2, 3, 1, 2, 2}) || !slices.Equal(reshaped.Shape, []int{2 * 2, 4, 4 * 8}) && !slices.Equal(reshaped.Shape, []int{2, 4, 4, 16}) {
		t.Errorf("shapes %v and %v", conv.Shape, reshaped.Shape)
	}
	if m := f.Metadata(); m[Architecture] != "wan" || m[Name] != "golden" || m[Tokenizer] != "" || m[NoTokenizer] != "" {
		t.Errorf("metadata %v", m)
	}
}

// TestDigestIsThatOfTheNumbers: a file whose tensors were widened to safetensors has the same digest.
func TestDigestIsThatOfTheNumbers(t *testing.T) {
	content, _ := golden(t)
	f, err := New(content)
	if err != nil {
		t.Fatal(err)
	}
	wide := map[string]safetensors.Tensor{}
	for _, name := range f.Names() {
		x, _ := f.Tensor(name)
		wide[name] = x.Widened()
	}
	var out bytes.Buffer
	if err := safetensors.Write(&out, wide, nil); err != nil {
		t.Fatal(err)
	}
	other, err := safetensors.New(out.Bytes())
	if err != nil || other.Digest() != f.Digest() {
		t.Errorf("digests %s and %s, %v", f.Digest(), other.Digest(), err)
	}
}

// TestBadFiles are refused with errors that say what is wrong.
func TestBadFiles(t *testing.T) {
	x := gguftest.Random("x", "Q8_0", 1, 2, 64)
	good := gguftest.Write(map[string]any{"general.architecture": "wan"}, []gguftest.Tensor{x})
	if _, err := New(good); err != nil {
		t.Fatal(err)
	}
	at := func(what string) int { return bytes.Index(good, []byte(what)) }
	changed := func(at int, to ...byte) []byte {
		return append(append(slices.Clone(good[:at]), to...), good[at+len(to):]...)
	}
	tensor := at("\x01\x00\x00\x00\x00\x00\x00\x00x") + 9 // after its name: axes, shape, type, offset
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"other file":    {[]byte("PK\x03\x04 and more of it"), "not a GGUF"},
		"version 1":     {changed(4, 1), "version 1"},
		"big-endian":    {changed(4, 0, 0, 0, 3), "big-endian"},
		"many tensors":  {changed(8, 255, 255, 255), "more than a file"},
		"cut header":    {good[:tensor+6], "cut short"},
		"cut data":      {good[:len(good)-70], "cut short"},
		"many axes":     {changed(tensor, 9), "9 axes"},
		"half a block":  {changed(tensor+4, 63), "blocks of 32"},
		"large axis":    {changed(tensor+12, 255, 255, 255, 255, 255, 255, 255, 127), "overflows"},
		"unknown type":  {changed(tensor+20, 23), "IQ4_XS, which is not supported: take the model in one of BF16"},
		"no type":       {changed(tensor+20, 99), "number 99"},
		"unaligned":     {changed(tensor+24, 8), "no multiple of 32"},
		"behind":        {changed(tensor+24, 0, 0, 0, 0, 0, 0, 0, 255), "cut short"},
		"value type":    {changed(at("general.architecture")+20, 13), "type 13"},
		"long value":    {changed(at("general.architecture")+24, 255, 255, 255, 255, 255, 255, 255, 255), "cut short"},
		"twice":         {gguftest.Write(nil, []gguftest.Tensor{x, x}), "appears twice"},
		"part":          {gguftest.Write(map[string]any{"split.count": uint32(3)}, []gguftest.Tensor{x}), "one of 3 parts"},
		"alignment":     {gguftest.Write(map[string]any{"general.alignment": uint32(12)}, []gguftest.Tensor{x}), "power of two"},
		"other shape":   {gguftest.Write(map[string]any{"comfy.gguf.orig_shape.x": []int32{3, 5}}, []gguftest.Tensor{x}), "does not have 128 numbers"},
		"negative axis": {gguftest.Write(map[string]any{"comfy.gguf.orig_shape.x": []int32{-2, -64}}, []gguftest.Tensor{x}), "axis of -2"},
	} {
		if _, err := New(c.data); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	over := []gguftest.Tensor{x, gguftest.Random("y", "Q8_0", 1, 2, 64)}
	data := gguftest.Write(nil, over)
	y := bytes.Index(data, []byte("\x01\x00\x00\x00\x00\x00\x00\x00y")) + 9
	data[y+24] = 32
	if _, err := New(data); err == nil || !strings.Contains(err.Error(), "inside the tensor") {
		t.Errorf("tensors that overlap: %v", err)
	}
}

// FuzzGGUF: no file makes the reader panic, and every tensor has as many numbers as its shape states.
func FuzzGGUF(f *testing.F) {
	content, _ := golden(f)
	f.Add(content)
	f.Add(gguftest.Write(vocabulary(), []gguftest.Tensor{gguftest.Random("x", "Q4_K", 1, 2, 256)}))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := New(data)
		if err != nil {
			return
		}
		for _, name := range file.Names() {
			x, _ := file.Tensor(name)
			n := kernels.Elements(x.Shape)
			if x.Packed != nil && x.Packed.Elements(x.Data) != n {
				t.Fatalf("%s: %d numbers, its shape is %v", name, x.Packed.Elements(x.Data), x.Shape)
			}
			x.NotFinite()
		}
		file.Digest()
	})
}

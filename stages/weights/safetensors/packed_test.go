package safetensors

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// scaledCase is a weight of 8 bits with a scale, and what torch makes of both.
type scaledCase struct {
	DType      string
	Shape      []int
	Data       []int
	ScaleDType string `json:"scale_dtype"`
	ScaleShape []int  `json:"scale_shape"`
	Scale      []int
	F32        []uint32
}

// fp8 is testdata/fp8.json.
func fp8(t testing.TB) (golden struct {
	Values map[string][]uint32
	Scaled []scaledCase
}) {
	t.Helper()
	data, err := os.ReadFile("testdata/fp8.json")
	if err == nil {
		err = json.Unmarshal(data, &golden)
	}
	if err != nil {
		t.Fatal(err)
	}
	return golden
}

func bytesOf(values []int) []byte {
	out := make([]byte, len(values))
	for i, v := range values {
		out[i] = byte(v)
	}
	return out
}

// fileOf is an open file of tensors.
func fileOf(t testing.TB, tensors map[string]Tensor) (*File, error) {
	t.Helper()
	var out bytes.Buffer
	if err := Write(&out, tensors, nil); err != nil {
		t.Fatal(err)
	}
	return New(out.Bytes())
}

// TestFloat8IsTorchs: every byte of fp8 has the value that it has in torch, and bfloat16 stores it exactly.
func TestFloat8IsTorchs(t *testing.T) {
	for dtype, want := range fp8(t).Values {
		data := make([]byte, 256)
		for i := range data {
			data[i] = byte(i)
		}
		f, err := fileOf(t, map[string]Tensor{"x": {DType: dtype, Shape: []int{256}, Data: data}})
		if err != nil {
			t.Fatal(err)
		}
		x, _ := f.Tensor("x")
		values, half := make([]float32, 256), x.Widened()
		x.Packed.Decode(values, x.Data, 0)
		for i, v := range values {
			exact := uint32(half.Data[2*i])<<16 | uint32(half.Data[2*i+1])<<24
			number := v == v
			if number && (math.Float32bits(v) != want[i] || exact != want[i]) || !number && math.Float32frombits(want[i]) == math.Float32frombits(want[i]) {
				t.Errorf("%s: byte %d is %g, torch has %g, bfloat16 %g", dtype, i, v, math.Float32frombits(want[i]), math.Float32frombits(exact))
			}
		}
		if half.DType != "BF16" || x.NotFinite() != slices.IndexFunc(values, func(v float32) bool { return v-v != 0 }) {
			t.Errorf("%s: widened to %s, element %d is not finite", dtype, half.DType, x.NotFinite())
		}
	}
}

// TestScaledWeights: value times scale is what torch computes in float32, for one scale, one scale a row, and blocks, with
// each name that programs use for scales. Scales are not listed as tensors.
func TestScaledWeights(t *testing.T) {
	for i, c := range fp8(t).Scaled {
		for _, name := range scaleNames {
			f, err := fileOf(t, map[string]Tensor{
				"m.a.weight":      {DType: c.DType, Shape: c.Shape, Data: bytesOf(c.Data)},
				"m.a" + name:      {DType: c.ScaleDType, Shape: c.ScaleShape, Data: bytesOf(c.Scale)},
				"m.a.bias":        {DType: "F32", Shape: []int{1}, Data: []byte{0, 0, 128, 63}},
				"m.a.scale_input": {DType: "F32", Shape: []int{}, Data: make([]byte, 4)}, "m.scaled_fp8": {DType: "F8_E4M3", Shape: []int{0}},
			})
			if err != nil {
				t.Fatalf("%d%s: %v", i, name, err)
			}
			if got := f.Names(); !slices.Equal(got, []string{"m.a.bias", "m.a.weight"}) {
				t.Errorf("%d%s: tensors %q", i, name, got)
			}
			x, _ := f.Tensor("m.a.weight")
			if x.DType != c.DType || x.Type() != "F32" || x.Stored() != c.DType+" with scales" {
				t.Errorf("%d%s: %s, read as %s, %s", i, name, x.DType, x.Type(), x.Stored())
			}
			for at, want := range c.F32 { // from any element on
				one := make([]float32, min(3, len(c.F32)-at))
				x.Packed.Decode(one, x.Data, at)
				if math.Float32bits(one[0]) != want {
					t.Errorf("%d%s: element %d is %g, torch has %g", i, name, at, one[0], math.Float32frombits(want))
				}
			}
		}
	}
}

// TestWidenedDigest: a file with 8-bit weights has the digest of the same file with the weights widened, as one file and as
// shards whose scales are in other shards.
func TestWidenedDigest(t *testing.T) {
	c := fp8(t).Scaled[0]
	plain := Tensor{DType: "F8_E5M2", Shape: []int{4}, Data: []byte{0, 60, 61, 190}}
	packed := map[string]Tensor{"a.weight": {DType: c.DType, Shape: c.Shape, Data: bytesOf(c.Data)},
		"a.scale_weight": {DType: c.ScaleDType, Shape: c.ScaleShape, Data: bytesOf(c.Scale)}, "b": plain, "scaled_fp8": {DType: "F8_E4M3", Shape: []int{0}},
		"n": {DType: "I8", Shape: []int{2}, Data: []byte{1, 255}}}
	f, err := fileOf(t, packed)
	if err != nil {
		t.Fatal(err)
	}
	wide := map[string]Tensor{}
	for _, name := range f.Names() {
		x, _ := f.Tensor(name)
		wide[name] = x.Widened()
	}
	w, err := fileOf(t, wide)
	if err != nil || w.packed || len(wide) != 3 || wide["a.weight"].DType != "F32" || wide["b"].DType != "BF16" || wide["n"].DType != "I8" {
		t.Fatalf("%v, %+v", err, wide)
	}
	if f.Digest() != w.Digest() || !f.IsFinite() {
		t.Error("the digest is another once the weights are widened")
	}
	dir, index := t.TempDir(), []string{}
	for i, name := range []string{"a.weight", "a.scale_weight", "b", "n", "scaled_fp8"} {
		shard := fmt.Sprintf("model-%d.safetensors", i%2)
		index = append(index, fmt.Sprintf("%q: %q", name, shard))
	}
	for i, names := range [][]string{{"a.weight", "b", "scaled_fp8"}, {"a.scale_weight", "n"}} {
		var out bytes.Buffer
		some := map[string]Tensor{}
		for _, name := range names {
			some[name] = packed[name]
		}
		if err := Write(&out, some, nil); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, fmt.Sprintf("model-%d.safetensors", i)), out.Bytes())
	}
	write(t, filepath.Join(dir, "i.json"), []byte(`{"weight_map": {`+strings.Join(index, ", ")+"}}"))
	s, err := OpenIndex(filepath.Join(dir, "i.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.Digest() != w.Digest() {
		t.Error("the digest is another in shards")
	}
}

func write(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestWrongScales: the error for a scale that does not fit names both tensors.
func TestWrongScales(t *testing.T) {
	one := Tensor{DType: "F32", Shape: []int{1}, Data: []byte{0, 0, 128, 63}}
	for want, more := range map[string]map[string]Tensor{
		`two scales, "a.scale_weight" and "a.weight_scale"`:         {"a.scale_weight": one, "a.weight_scale": one},
		`"a.scale_weight" holds NaN`:                                {"a.scale_weight": {DType: "F32", Shape: []int{1}, Data: []byte{0, 0, 192, 127}}},
		`"a.scale_weight" is I32: give F32, BF16 or F64`:            {"a.scale_weight": {DType: "I32", Shape: []int{1}, Data: make([]byte, 4)}},
		`has shape [3]: give one number, one for each row of [4 2]`: {"a.scale_weight": {DType: "F32", Shape: []int{3}, Data: make([]byte, 12)}},
		`has shape [0]`: {"a.scale_weight": {DType: "F32", Shape: []int{0}}},
	} {
		more["a.weight"] = Tensor{DType: "F8_E4M3", Shape: []int{4, 2}, Data: make([]byte, 8)}
		if _, err := fileOf(t, more); err == nil || !strings.Contains(err.Error(), `tensor "a.weight": `) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

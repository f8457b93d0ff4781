package weights

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"os"
	"slices"
	"testing"

	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/stages/sequence"
	"latentbeam/stages/weights/safetensors"
)

// TestPackedWeights: an 8-bit weight with scales is loaded as value times scale in float32, rounded once to the type of the
// model, as in torch: whole, and split by rows and columns.
func TestPackedWeights(t *testing.T) {
	var golden struct {
		Scaled []struct {
			DType       string
			Shape       []int
			Data, Scale []int
			ScaleDType  string `json:"scale_dtype"`
			ScaleShape  []int  `json:"scale_shape"`
			F32         []uint32
			BF16        []uint16
		}
	}
	data, err := os.ReadFile("safetensors/testdata/fp8.json")
	if err == nil {
		err = json.Unmarshal(data, &golden)
	}
	if err != nil {
		t.Fatal(err)
	}
	raw := func(values []int) (out []byte) {
		for _, v := range values {
			out = append(out, byte(v))
		}
		return out
	}
	for i, c := range golden.Scaled {
		var file bytes.Buffer
		err := safetensors.Write(&file, map[string]safetensors.Tensor{"a.weight": {DType: c.DType, Shape: c.Shape, Data: raw(c.Data)},
			"a.weight_scale": {DType: c.ScaleDType, Shape: c.ScaleShape, Data: raw(c.Scale)}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		f, err := safetensors.New(file.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		x, _ := f.Tensor("a.weight")
		wide, narrow := binary.LittleEndian.AppendUint32, binary.LittleEndian.AppendUint16
		var f32, bf16 []byte
		for j := range c.F32 {
			f32, bf16 = wide(f32, c.F32[j]), narrow(bf16, c.BF16[j])
		}
		for dt, want := range map[kernels.DType][]byte{kernels.F32: f32, kernels.BF16: bf16} {
			rows, columns := c.Shape[0], kernels.Elements(c.Shape[1:])
			for name, part := range map[string]Subset{"all": {}, "rows": {Rows: sequence.Range{Lo: 1, Hi: rows}, Groups: 1},
				"columns": {Columns: sequence.Range{Lo: 1, Hi: columns}}} {
				if name == "columns" && len(c.Shape) > 2 {
					continue
				}
				from := part.source(x, kernels.F32)
				from.to = dt
				var cut []byte
				for j := range rows {
					line := want[j*columns*dt.Size():][:columns*dt.Size()]
					switch {
					case name == "all", name == "rows" && j > 0:
						cut = append(cut, line...)
					case name == "columns":
						cut = append(cut, line[dt.Size():]...)
					}
				}
				if got := from.bytes(); !bytes.Equal(got, cut) {
					t.Errorf("case %d, %s, %v: % x, torch has % x", i, name, dt, got, cut)
				}
			}
			w := NewWeights(cpu.New(1), f).As(dt)
			loaded := w.Tensor("a.weight", c.Shape...)
			got := make([]float32, loaded.Len())
			if err := w.be.Download(got, loaded); err != nil || w.Check() != nil {
				t.Fatal(err, w.Check())
			}
			if !slices.Equal(dt.Bytes(got), want) {
				t.Errorf("case %d, %v: loaded weights differ from torch's", i, dt)
			}
		}
	}
}

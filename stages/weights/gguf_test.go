package weights

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/stages/sequence"
	"latentbeam/stages/weights/gguf"
	"latentbeam/stages/weights/gguf/gguftest"
)

// TestBlocksOfGGUF: a weight in blocks is loaded as its numbers, rounded once: whole, split by rows of groups, split by
// columns in the middle of a block, and streamed.
func TestBlocksOfGGUF(t *testing.T) {
	const rows, columns = 6, 512
	for _, of := range gguftest.Types() {
		var file []gguftest.Tensor
		for i := range 3 {
			file = append(file, gguftest.Random(fmt.Sprintf("blocks.%d.weight", i), of, 1, rows, columns))
		}
		f, err := gguf.New(gguftest.Write(nil, file))
		if err != nil {
			t.Fatal(err)
		}
		x, _ := f.Tensor("blocks.1.weight")
		stored := kernels.DTypes[x.Type()]
		wide := stored.Values(x.Widened().Data)
		for _, dt := range []kernels.DType{kernels.F32, kernels.BF16} {
			to := dt
			if dt == kernels.F32 {
				to = stored // which nothing widens
			}
			for name, part := range map[string]Subset{"all": {}, "rows": {Rows: sequence.Range{Lo: 1, Hi: 2}, Groups: 3},
				"columns": {Columns: sequence.Range{Lo: 17, Hi: 301}}} {
				var cut []float32
				for j := range rows {
					line := wide[j*columns:][:columns]
					switch {
					case name == "all", name == "rows" && j%2 == 1:
						cut = append(cut, line...)
					case name == "columns":
						cut = append(cut, line[17:301]...)
					}
				}
				from := part.source(x, stored)
				from.to = to
				if !bytes.Equal(from.bytes(), to.Bytes(cut)) {
					t.Errorf("%s, %s, %v: other numbers", of, name, dt)
				}
			}
			be := cpu.New(1)
			w := NewWeights(be, f).As(dt)
			w.account.flow = newFlow(be, 0)
			var loaded []kernels.Tensor
			run := w.Blocks(3, "blocks.%d")
			for i := range 3 {
				loaded = append(loaded, w.Block(i, "blocks.%d").Tensor("weight", rows, columns))
			}
			if err := w.Check(); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				for i := range w.Flow().Each(run) {
					x, _ := f.Tensor(file[i].Name)
					got := make([]float32, rows*columns)
					if err := be.Download(got, loaded[i]); err != nil {
						t.Fatal(err)
					}
					if want := stored.Values(x.Widened().Data); !bytes.Equal(to.Bytes(got), to.Bytes(want)) {
						t.Errorf("%s, %v: block %d has other numbers when it passes", of, dt, i)
					}
				}
			}
		}
		if of != "F32" && slices.Equal(wide, make([]float32, len(wide))) {
			t.Errorf("%s: all zeros", of)
		}
	}
}

package nn_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/stages/nn"
	"latentbeam/stages/nn/nntest"
	"latentbeam/stages/weights"
	"latentbeam/stages/weights/safetensors"
)

// TestCheckListsEverything: one error names every tensor that does not fit, with both shapes.
func TestCheckListsEverything(t *testing.T) {
	f := nntest.Encode(t, map[string]safetensors.Tensor{
		"a.weight":    nntest.Tensor(make([]float32, 6), 2, 3),
		"a.bias":      nntest.Tensor(make([]float32, 3), 3),
		"steps":       {DType: "I64", Shape: []int{1}, Data: make([]byte, 8)},
		"leftover":    nntest.Tensor(make([]float32, 4), 4),
		"pos_embed":   nntest.Tensor(make([]float32, 1), 1),
		"table":       nntest.Tensor(make([]float32, 10), 5, 2),
		"table_empty": nntest.Tensor(nil, 0, 2),
	})
	be := cpu.New(1)
	w := weights.NewWeights(be, f)
	if l := nn.LoadLinear(w.Sub("a"), 3, 2); l.W.IsZero() || !l.B.IsZero() {
		t.Error("the fitting weight was not loaded, or the misshapen bias was")
	}
	w.Tensor("steps", 1)
	w.Subf("blocks.%d", 7).Sub("attn").Tensor("weight", 4, 4)
	if rows := w.Rows("table", 9, 2); rows.IsZero() || rows.Dim(0) != 5 {
		t.Error("a table of other length was refused")
	}
	w.Rows("table_empty", 9, 2)
	err := w.Check("pos_embed", "pos_embed_temporal")
	if err == nil {
		t.Fatal("no error")
	}
	want := []string{
		`missing     "blocks.7.attn.weight" [4 4]`,
		`unexpected  "leftover" [4]`,
		`wrong shape "a.bias" [3], want [2]`,
		`wrong shape "table_empty" [0 2], want [9 2]`,
		`wrong type  "steps" I64, want F32, BF16, F16, or 8 bits: fp8, or I8 with a scale`,
	}
	lines := strings.Split(err.Error(), "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	if !slices.Equal(lines[1:], want) {
		t.Errorf("the error lists\n%s\nwant\n%s", strings.Join(lines[1:], "\n"), strings.Join(want, "\n"))
	}
	if !strings.HasPrefix(lines[0], "weights: 5 of the tensors do not fit") {
		t.Errorf("the error begins with %q", lines[0])
	}
}

// TestDoublesCanBeConverted: for a type that no backend stores but that can be rounded, the error says how to round it.
func TestDoublesCanBeConverted(t *testing.T) {
	for dtype, helps := range map[string]bool{"F64": true, "I64": false} {
		w := weights.NewWeights(cpu.New(1), nntest.Encode(t, map[string]safetensors.Tensor{
			"a": {DType: dtype, Shape: []int{1}, Data: make([]byte, 8)}}))
		w.Tensor("a", 1)
		if err := w.Check(); err == nil || strings.Contains(err.Error(), "latentbeam convert --dtype f32") != helps {
			t.Errorf("%s: %v", dtype, err)
		}
	}
}

func TestCheckOfAPart(t *testing.T) {
	f := nntest.File(t, map[string][]int{"text.norm": {2}, "video.norm": {2}})
	be := cpu.New(1)
	text := weights.NewWeights(be, f).Sub("text")
	text.Tensor("norm", 2)
	if err := text.Check(); err != nil {
		t.Errorf("the names of another part count as unexpected: %v", err)
	}
}

func TestDuplicateNames(t *testing.T) {
	f, g := nntest.File(t, map[string][]int{"a": {1}}), nntest.File(t, map[string][]int{"a": {1}, "b": {1}})
	w := weights.NewWeights(cpu.New(1), f, g)
	w.Tensor("a", 1)
	w.Tensor("b", 1)
	if err := w.Check(); err == nil || !strings.Contains(err.Error(), `duplicate   "a"`) {
		t.Errorf("a name in two files gave %v", err)
	}
}

// TestLongErrorsAreCut: an error about a file with very many unexpected names is limited in length.
func TestLongErrorsAreCut(t *testing.T) {
	shapes := map[string][]int{}
	for i := range 3000 {
		shapes[fmt.Sprintf("strange.%d", i)] = []int{1}
	}
	err := weights.NewWeights(cpu.New(1), nntest.File(t, shapes)).Check()
	if err == nil || strings.Count(err.Error(), "\n") > 1001 || !strings.Contains(err.Error(), "more") {
		t.Errorf("an error of %d lines for %d names", strings.Count(err.Error(), "\n"), len(shapes))
	}
}

// TestHalfWeights: weights stored in half precision are used as they are.
func TestHalfWeights(t *testing.T) {
	bf16 := []byte{0x80, 0x3f, 0x00, 0x40, 0x40, 0x40, 0x80, 0xbf} // 1, 2, 3, -1
	half := safetensors.Tensor{DType: "BF16", Shape: []int{2, 2}, Data: bf16}
	f := nntest.Encode(t, map[string]safetensors.Tensor{"weight": half})
	be := cpu.New(1)
	w := weights.NewWeights(be, f)
	l := nn.Linear{W: w.Tensor("weight", 2, 2)}
	if err := w.Check(); err != nil {
		t.Fatal(err)
	}
	x := be.Alloc(kernels.F32, 1, 2)
	be.Upload(x, []float32{10, 1})
	got := make([]float32, 2)
	if err := be.Download(got, l.Forward(be, x, kernels.Identity)); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, []float32{12, 29}) {
		t.Errorf("%v, want [12 29]", got)
	}
}

func TestPeakBytes(t *testing.T) {
	peak, err := nn.PeakBytes(func(be kernels.Backend) error {
		be.Alloc(kernels.F32, 10) // 40 bytes
		end := be.Scope()
		be.Alloc(kernels.BF16, 100) // 200 bytes
		end()
		end = be.Scope()
		be.Alloc(kernels.F32, 20, 2) // 160 bytes
		end()
		return nil
	})
	if err != nil || peak != 240 {
		t.Errorf("peak %d, %v, want 240", peak, err)
	}
}

// TestNaNsAreRefused: a damaged checkpoint gives an error that names the tensor, not results of NaNs.
func TestNaNsAreRefused(t *testing.T) {
	f := nntest.Encode(t, map[string]safetensors.Tensor{
		"good": nntest.Tensor([]float32{1, 2}, 2), "bad": nntest.Tensor([]float32{1, 2, float32(math.NaN())}, 3),
		"huge": nntest.Tensor([]float32{float32(math.Inf(-1))}, 1),
	})
	for range 2 { // before and after the digest has looked at all of them
		w := weights.NewWeights(cpu.New(1), f)
		w.Tensor("good", 2)
		if bad, huge := w.Tensor("bad", 3), w.Tensor("huge", 1); !bad.IsZero() || !huge.IsZero() {
			t.Error("a NaN or an infinity was loaded")
		}
		err := w.Check()
		nntest.WantError(t, "NaN", err, `not finite  "bad" element 2 is NaN: the checkpoint is damaged`)
		nntest.WantError(t, "infinity", err, `not finite  "huge" element 0 is -Inf`)
		f.Digest()
	}
}

// TestOutline: a model that is loaded from names and shapes alone lists the tensors that do not fit.
func TestOutline(t *testing.T) {
	w := weights.Outline([]safetensors.TensorInfo{{Name: "a.weight", DType: "F32", Shape: []int{2, 3}},
		{Name: "a.bias", DType: "F32", Shape: []int{3}}, {Name: "ids", DType: "I64", Shape: []int{1}},
		{Name: "rest.1", DType: "F32"}, {Name: "rest.2", DType: "F32"}, {Name: "freqs", DType: "F32", Shape: []int{4}}})
	nn.LoadLinear(w.Sub("a"), 3, 2)
	w.Tensor("ids", 1)
	w.Tensor("absent", 1)
	if got := w.Values("freqs", 4); len(got) != 4 {
		t.Errorf("values %v", got)
	}
	if err := w.Check("rest.*"); err == nil {
		t.Error("no error")
	}
	var got []string
	for _, m := range w.Misfits() {
		got = append(got, m.Kind+" "+m.Name)
	}
	slices.Sort(got)
	if want := []string{"missing absent", "wrong shape a.bias", "wrong type ids"}; !slices.Equal(got, want) {
		t.Errorf("misfits %q, want %q", got, want)
	}
}

package weights

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/stages/sequence"
	"latentbeam/stages/weights/lora"
	"latentbeam/stages/weights/safetensors"
)

// wave returns n values of about 1.
func wave(n int, step float64) []byte {
	var out []byte
	for i := range n {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(float32(math.Sin(step*float64(i)))))
	}
	return out
}

// TestAddedIsTheSameEverywhere: a weight with an adapter that is split by rows, by columns or by groups has the bytes of the
// whole weight, in every type. The whole weight is W + scale * alpha / rank * B A, rounded once.
func TestAddedIsTheSameEverywhere(t *testing.T) {
	const rows, columns, rank, scale, alpha = 12, 2500, 6, 0.75, 4
	f32 := func(shape []int, step float64) safetensors.Tensor {
		n := 1
		for _, d := range shape {
			n *= d
		}
		return safetensors.Tensor{DType: "F32", Shape: shape, Data: wave(n, step)}
	}
	tensors := map[string]safetensors.Tensor{"layer.lora_down.weight": f32([]int{rank, columns}, 0.37),
		"layer.lora_up.weight": f32([]int{rows, rank}, 1.7),
		"layer.alpha":          {DType: "F32", Shape: []int{}, Data: binary.LittleEndian.AppendUint32(nil, math.Float32bits(alpha))}}
	path := filepath.Join(t.TempDir(), "lora.safetensors")
	var file bytes.Buffer
	if err := safetensors.Write(&file, tensors, nil); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, file.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	adapter, err := lora.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	added, _, err := adapter.Fit(map[string][]int{"layer.weight": {rows, columns}}, nil, scale, false)
	if err != nil {
		t.Fatal(err)
	}
	whole := safetensors.Tensor{DType: "F32", Shape: []int{rows, columns}, Data: wave(rows*columns, 0.11)}
	load := func(dt kernels.DType, part Subset) []byte {
		from := part.source(whole, kernels.F32)
		from.added, from.to = added["layer.weight"], dt
		return from.bytes()
	}
	for _, dt := range []kernels.DType{kernels.F32, kernels.BF16, kernels.F16} {
		all, size := load(dt, Subset{}), dt.Size()
		for r := range rows {
			for c := range columns {
				sum := 0.0
				for k := range rank {
					sum += math.Sin(1.7*float64(r*rank+k)) * math.Sin(0.37*float64(k*columns+c))
				}
				want := math.Sin(0.11*float64(r*columns+c)) + scale*alpha/rank*sum
				got := float64(dt.At(all, r*columns+c))
				if tolerance := map[kernels.DType]float64{kernels.F32: 1e-6, kernels.BF16: 8e-3,
					kernels.F16: 1e-3}[dt]; math.Abs(got-want) > tolerance*max(1, math.Abs(want)) {
					t.Fatalf("%v: row %d, column %d is %g, want %g", dt, r, c, got, want)
				}
			}
		}
		var cut []byte
		for r := 0; r < rows; r += 4 {
			cut = append(cut, load(dt, Subset{Groups: 1, Rows: sequence.Range{Lo: r, Hi: r + 4}})...)
		}
		if !bytes.Equal(cut, all) {
			t.Errorf("%v: other bytes where rows are cut", dt)
		}
		for _, at := range []sequence.Range{{Lo: 0, Hi: 900}, {Lo: 900, Hi: 901}, {Lo: 901, Hi: columns}} {
			var want []byte
			for r := range rows {
				want = append(want, all[(r*columns+at.Lo)*size:(r*columns+at.Hi)*size]...)
			}
			if got := load(dt, Subset{Columns: at}); !bytes.Equal(got, want) {
				t.Errorf("%v: other bytes in columns %v", dt, at)
			}
		}
		var want []byte
		for _, r := range []int{1, 2, 7, 8} { // rows 1 and 2 of both groups of 6
			want = append(want, all[r*columns*size:(r+1)*columns*size]...)
		}
		if got := load(dt, Subset{Groups: 2, Rows: sequence.Range{Lo: 1, Hi: 3}}); !bytes.Equal(got, want) {
			t.Errorf("%v: other bytes in groups", dt)
		}
	}
}

// TestAddedToNarrowFile: if the file stores a weight in a narrow type, the adapter is added in fp32 and the sum is rounded to
// the type of the model.
func TestAddedToNarrowFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lora.safetensors")
	var file bytes.Buffer
	one := func(v float32) []byte { return binary.LittleEndian.AppendUint32(nil, math.Float32bits(v)) }
	err := safetensors.Write(&file, map[string]safetensors.Tensor{"layer.diff": {DType: "F32", Shape: []int{1, 1},
		Data: one(1.0 / 512)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, file.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	adapter, err := lora.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	base, err := safetensors.New(func() []byte {
		var out bytes.Buffer
		_ = safetensors.Write(&out, map[string]safetensors.Tensor{"layer.weight": {DType: "BF16", Shape: []int{1, 1},
			Data: []byte{0x80, 0x3f}}}, nil)
		return out.Bytes()
	}())
	if err != nil {
		t.Fatal(err)
	}
	be := cpu.New(1)
	for dt, want := range map[kernels.DType]float32{kernels.F32: 1 + 1.0/512, kernels.BF16: 1} {
		w := NewWeights(be, base)
		if w.added, _, err = adapter.Fit(map[string][]int{"layer.weight": {1, 1}}, nil, 1, false); err != nil {
			t.Fatal(err)
		}
		got := w.As(dt).Tensor("layer.weight", 1, 1)
		wide := be.Alloc(kernels.F32, 1, 1)
		be.Copy(wide, got)
		values := make([]float32, 1)
		if err := be.Download(values, wide); err != nil || got.DType != dt || !slices.Equal(values, []float32{want}) {
			t.Errorf("%v: %v of %v, %v, want %v", dt, values, got.DType, err, want)
		}
	}
}

// BenchmarkAdded reports how fast a weight is read as bf16, without and with an adapter of rank 64, on one goroutine.
func BenchmarkAdded(b *testing.B) {
	const n, rank = 1536, 64
	shape := []int{n, n}
	var file bytes.Buffer
	err := safetensors.Write(&file, map[string]safetensors.Tensor{
		"a.lora_A.weight": {DType: "F32", Shape: []int{rank, n}, Data: wave(rank*n, 0.3)},
		"a.lora_B.weight": {DType: "F32", Shape: []int{n, rank}, Data: wave(rank*n, 0.7)}}, nil)
	path := filepath.Join(b.TempDir(), "a.safetensors")
	if err != nil || os.WriteFile(path, file.Bytes(), 0o600) != nil {
		b.Fatal(err)
	}
	adapter, err := lora.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	added, _, err := adapter.Fit(map[string][]int{"a.weight": shape}, nil, 1, false)
	if err != nil {
		b.Fatal(err)
	}
	for name, delta := range map[string]lora.Delta{"plain": nil, "adapter": added["a.weight"]} {
		b.Run(name, func(b *testing.B) {
			s := Subset{}.source(safetensors.Tensor{DType: "F32", Shape: shape, Data: wave(n*n, 0.1)}, kernels.F32)
			s.to, s.added = kernels.BF16, delta
			dst := make([]byte, s.size())
			for b.Loop() {
				s.readSome(dst, 0, n*n)
			}
			b.ReportMetric(float64(b.N)*n*n/b.Elapsed().Seconds()/1e6, "Mweights/s")
		})
	}
}

package nn_test

import (
	"math"
	"testing"

	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/stages/nn"
	"latentbeam/stages/nn/nntest"
)

// TestRopeAngles: an angle is position times frequency, counted from the given start.
func TestRopeAngles(t *testing.T) {
	be := cpu.New(1)
	freqs := nn.RopeFreqs(36)
	if f := freqs[18]; math.Abs(float64(f)-0.01) > 1e-9 || freqs[0] != 1 {
		t.Errorf("frequencies %g, %g, want 1 and 10000^(-1/2)", freqs[0], f)
	}
	rope := nn.NewRope(be, kernels.F32, freqs, nn.RopePositions(kernels.F32, nn.Span{Start: 5, Len: 3}, 2))
	cos, sin := nntest.Values(t, be, rope.Cos), nntest.Values(t, be, rope.Sin)
	for i := range 3 {
		for j, f := range freqs {
			angle := float64(float32(5+i)/2) * float64(f)
			if math.Abs(float64(cos[i*36+j])-math.Cos(angle)) > 1e-6 ||
				math.Abs(float64(sin[i*36+j])-math.Sin(angle)) > 1e-6 {
				t.Errorf("position %d, frequency %d: %g, %g", 5+i, j, cos[i*36+j], sin[i*36+j])
			}
		}
	}
}

// TestRope3D: the three parts of the channels are rotated by frame, row and column.
func TestRope3D(t *testing.T) {
	be := cpu.New(1)
	rows, cols, frames := []float32{0, 1}, []float32{0, 10, 20}, []float32{0, 3}
	rope := nn.NewRope3D(be, kernels.F32, []float32{1, 0.5}, rows, cols, frames)
	if got := rope.Cos.Shape; len(got) != 4 || got[0] != 2 || got[1] != 3 || got[2] != 2 || got[3] != 6 {
		t.Fatalf("shape %v", got)
	}
	cos := nntest.Values(t, be, rope.Cos)
	at := cos[((1*3+2)*2+1)*6:][:6] // row 1, column 2, frame 1
	for i, angle := range []float64{3, 1.5, 1, 0.5, 20, 10} {
		if math.Abs(float64(at[i])-math.Cos(angle)) > 1e-6 {
			t.Errorf("channel pair %d has cosine %g, want that of %g", i, at[i], angle)
		}
	}
}

// TestRopeInBF16: positions, products and cosines are each rounded to bf16. Position 257 becomes 256.
func TestRopeInBF16(t *testing.T) {
	be := cpu.New(1)
	positions := nn.RopePositions(kernels.BF16, nn.Span{Start: 257, Len: 1}, 1)
	if positions[0] != 256 {
		t.Errorf("position 257 is %g", positions[0])
	}
	const freq = 0.0754
	rope := nn.NewRope(be, kernels.BF16, []float32{freq}, []float32{77})
	angle := kernels.BF16.Round(77 * kernels.BF16.Round(freq))
	if angle == kernels.BF16.Round(77*freq) || angle == 77*kernels.BF16.Round(freq) {
		t.Fatal("the test cannot see the rounding")
	}
	want := kernels.BF16.Round(float32(math.Cos(float64(angle))))
	if got := nntest.Values(t, be, rope.Cos)[0]; got != want {
		t.Errorf("cosine %g, want %g", got, want)
	}
}

// TestGridPositions: the grid is stretched to a square of the same area, columns first, from any patch on.
func TestGridPositions(t *testing.T) {
	const c, rows, cols, scale = 8, 2, 8, 0.5
	all := nn.SinCosGrid(kernels.F32, c, rows, cols, nn.Span{Len: rows * cols}, scale)
	at := all[(1*cols+3)*c:][:c]               // row 1, column 3; base size 4
	col, row := 3/scale*4/cols, 1/scale*4/rows // 3 and 4
	want := []float64{math.Sin(col), math.Sin(col / 100), math.Cos(col), math.Cos(col / 100),
		math.Sin(row), math.Sin(row / 100), math.Cos(row), math.Cos(row / 100)}
	for i := range want {
		if math.Abs(float64(at[i])-want[i]) > 1e-6 {
			t.Errorf("channel %d is %g, want %g", i, at[i], want[i])
		}
	}
	part := nn.SinCosGrid(kernels.F32, c, rows, cols, nn.Span{Start: 11, Len: 3}, scale)
	for i, v := range part {
		if v != all[11*c+i] {
			t.Fatal("a part of the grid has other positions than the whole")
		}
	}
}

// TestGridPositionsInBF16: the frequencies are bf16, positions and angles fp32.
func TestGridPositionsInBF16(t *testing.T) {
	const c, side, scale = 8, 40, 0.3
	table := nn.SinCosGrid(kernels.BF16, c, side, side, nn.Span{Start: 37, Len: 1}, scale)
	freq := kernels.BF16.Round(0.01)
	want := math.Sin(float64(float32(37) / float32(scale) * freq))
	if math.Abs(float64(table[1])-want) > 1e-6 || math.Abs(want-math.Sin(37/scale*0.01)) < 1e-4 {
		t.Errorf("column 37 has %g, want %g", table[1], want)
	}
}

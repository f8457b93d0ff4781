package nn_test

import (
	"math"
	"slices"
	"testing"

	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/stages/nn"
)

// TestSinusoid checks values of the reference at t = 968.
func TestSinusoid(t *testing.T) {
	s := nn.Sinusoid([]float32{0, 968}, nn.SinusoidWidth)[nn.SinusoidWidth:]
	for i, want := range []float64{0.9251132, -0.6649343, -0.8515716} {
		if math.Abs(float64(s[i])-want) > 1e-6 {
			t.Errorf("cosine %d is %g, want %g", i, s[i], want)
		}
	}
	for i, want := range []float64{0.3796914, 0.7469018} {
		if math.Abs(float64(s[128+i])-want) > 1e-6 {
			t.Errorf("sine %d is %g, want %g", i, s[128+i], want)
		}
	}
}

// TestPositions: the column comes first, then the row; sines before cosines.
func TestPositions(t *testing.T) {
	const c, rows, cols = 8, 2, 3
	table := nn.SinCos2D(c, cols, nn.Span{Len: rows * cols}, 0.5)
	at := table[(1*cols+2)*c:][:c] // row 1, column 2, at scale 0.5: positions 2 and 4
	want := []float64{math.Sin(4), math.Sin(.04), math.Cos(4), math.Cos(.04),
		math.Sin(2), math.Sin(.02), math.Cos(2), math.Cos(.02)}
	for i := range want {
		if math.Abs(float64(at[i])-want[i]) > 1e-6 {
			t.Errorf("channel %d is %g, want %g", i, at[i], want[i])
		}
	}
	if line := nn.SinCos1D(4, nn.Span{Len: 3}, 2.0/3); math.Abs(float64(line[2*4])-math.Sin(3)) > 1e-6 {
		t.Errorf("frame 2 at scale 2/3 starts with %g, want sin(3)", line[8])
	}
}

// TestPatches: embedding with the identity and then unpatchifying gives the latent back, for any patch size and with padding.
// The channel is the slowest axis in the embedding and the fastest in the output.
func TestPatches(t *testing.T) {
	be := cpu.New(1)
	for _, patch := range []nn.Patch{{1, 2, 2}, {2, 3, 1}, {1, 1, 1}} {
		const channels = 2
		shape := []int{2, channels, 3, 5, 4}
		k := channels * patch.Size()
		w := make([]float32, k*k) // output p*channels+c takes input c*size+p
		for c := range channels {
			for p := range patch.Size() {
				w[(p*channels+c)*k+c*patch.Size()+p] = 1
			}
		}
		weight := be.Alloc(kernels.F32, k, k)
		be.Upload(weight, w)
		values := make([]float32, 2*channels*3*5*4)
		for i := range values {
			values[i] = float32(i)
		}
		x, back := be.Alloc(kernels.F32, shape...), be.Alloc(kernels.F32, shape...)
		be.Upload(x, values)
		embed := nn.PatchEmbed{Proj: nn.Linear{W: weight}, Patch: patch, Channels: channels}
		nn.Unpatchify(be, back, embed.Forward(be, kernels.F32, x), patch)
		got := make([]float32, len(values))
		if err := be.Download(got, back); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, values) {
			t.Errorf("patch %v does not give the latent back", patch)
		}
	}
}

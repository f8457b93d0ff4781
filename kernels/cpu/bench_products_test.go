package cpu

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"latentbeam/kernels"
)

// addLinear adds products M x N x K with the shapes of STDiT-XL/2, T5-xxl, the built-in model and Wan 2.1 1.3B: with weights in a
// mapped file, which each call packs, and with weights that were packed before.
func (k *kernelBench) addLinear() {
	for _, s := range [][3]int{
		{1024, 1152, 1152}, {1024, 4608, 1152}, {1024, 1152, 4608}, {256, 1152, 1152}, {2, 1152, 1152},
		{120, 4096, 4096}, {120, 10240, 4096}, {120, 4096, 10240},
		{256, 128, 128}, {64, 64, 64}, {1024, 128, 384}, {16, 512, 512}, {1, 512, 512},
		{4096, 1536, 1536}, {4096, 8960, 1536}, {4096, 1536, 8960},
	} {
		for _, c := range []struct {
			name string
			x, w kernels.DType
		}{{"f32", kernels.F32, kernels.F32}, {"bf16", kernels.BF16, kernels.BF16}, {"f32,bf16", kernels.F32, kernels.BF16}} {
			if k.be.tier == portable && s[0]*s[1]*s[2] > 1<<23 {
				continue
			}
			k.linear("mapped", s, c.name, k.bound(c.x, c.w), c.x, c.w, kernels.Epilogue{}, 0)
			k.linear("packed", s, c.name, k.bound(c.x, c.w), c.x, c.w, kernels.Epilogue{}, 1<<30)
		}
		if k.be.tier != portable {
			k.linear("packed", s, "int8", "int8", kernels.BF16, kernels.BF16, kernels.Epilogue{Int8: true}, 1<<30)
		}
	}
}

// linear adds one product. Packed forms of weights are cached if they have at most keep bytes.
func (k *kernelBench) linear(weights string, s [3]int, kind, peak string, x, w kernels.DType, epilogue kernels.Epilogue, keep int) {
	m, n, terms := s[0], s[1], s[2]
	name := fmt.Sprintf("op=linear/weights=%s/shape=%s/type=%s", weights, times(s[:]...), kind)
	k.add(name, peak, 2*float64(m)*float64(n)*float64(terms), func(b *testing.B) func() {
		x, y := filled(k.be, x, m, terms), k.be.Alloc(x, m, n)
		w, err := k.be.Weights(w, []int{n, terms}, mappedFile(b, n*terms*w.Size()))
		if err != nil {
			b.Fatal(err)
		}
		return func() {
			k.be.maxCachedWeight, k.be.maxCachedTotal = keep, 4<<30
			k.be.Linear(y, x, w, epilogue)
		}
	})
}

// addConv adds convolutions of the decoders of AutoencoderKL and of the built-in model, and convolutions over three frames of Wan's decoder.
func (k *kernelBench) addConv() {
	if k.be.tier == portable {
		return
	}
	for _, s := range []struct{ size, cin, cout, k, frames int }{
		{64, 512, 512, 3, 1}, {256, 256, 256, 3, 1}, {512, 128, 128, 3, 1}, {64, 512, 512, 1, 1},
		{32, 32, 32, 3, 1}, {64, 32, 3, 3, 1},
		{80, 384, 384, 3, 3}, {320, 192, 192, 3, 3}, {640, 96, 96, 3, 3}, {640, 96, 3, 3, 3},
	} {
		for _, dt := range []kernels.DType{kernels.F32, kernels.BF16} {
			name := fmt.Sprintf("op=conv/shape=%s/kernel=%s/type=%s", times(s.frames, s.size, s.size, s.cin),
				times(s.frames, s.k, s.k, s.cout), typeName(dt))
			flop := 2 * float64(s.size*s.size*s.cout) * float64(s.cin*s.frames*s.k*s.k)
			k.add(name, k.bound(dt, dt), flop, func(*testing.B) func() {
				x, w := filled(k.be, dt, 1, s.frames, s.size, s.size, s.cin), filled(k.be, dt, s.cout, s.cin, s.frames, s.k, s.k)
				w.Buf.(*buffer).weight = &weightState{}
				y := k.be.Alloc(dt, 1, 1, s.size, s.size, s.cout)
				p := s.k / 2
				spec := kernels.ConvSpec{Top: p, Left: p, Bottom: p, Right: p}
				return func() { k.be.Conv(y, x, w, spec) }
			})
		}
	}
}

// mappedFile returns n bytes of a mapped file that hold small numbers of every type.
func mappedFile(b *testing.B, n int) []byte {
	b.Helper()
	path := filepath.Join(b.TempDir(), "weights")
	data := make([]byte, min(n, 1<<20))
	r := rand.New(rand.NewPCG(1, 2))
	for i := range data {
		data[i] = byte(r.Uint32())
		if i%2 == 1 { // the upper byte of bf16: magnitudes around 1
			data[i] = data[i]&0x80 | 0x3f
		}
	}
	data = bytes.Repeat(data, (n+len(data)-1)/len(data))[:n]
	if err := os.WriteFile(path, data, 0o600); err != nil {
		b.Fatal(err)
	}
	mapped, err := mapFile(path, n)
	if err != nil {
		b.Fatal(err)
	}
	return mapped
}

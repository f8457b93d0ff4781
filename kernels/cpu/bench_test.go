package cpu

import (
	"fmt"
	"testing"

	"latentbeam/kernels"
)

// rate runs f and reports flop per call as GFLOP/s.
func rate(b *testing.B, be *Backend, flop int, f func()) {
	for b.Loop() {
		f()
	}
	if err := be.Wait(); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(flop)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
}

// filled returns a tensor of small numbers: denormals and NaN in fresh memory would slow the arithmetic.
func filled(be *Backend, dt kernels.DType, shape ...int) kernels.Tensor {
	t := be.Alloc(dt, shape...)
	host := make([]float32, t.Len())
	for i := range host {
		host[i] = float32(i%17)/8 - 1
	}
	be.Upload(t, host)
	return t
}

func BenchmarkLinear(b *testing.B) {
	for _, s := range []struct {
		m, n, k int
		dt      kernels.DType
	}{
		{256, 128, 128, kernels.F32}, {1024, 512, 512, kernels.F32}, {1024, 128, 384, kernels.F32},
		{256, 512, 128, kernels.BF16}, {16, 512, 512, kernels.F32}, {1, 512, 512, kernels.F32},
	} {
		for _, threads := range []int{1, 2} {
			b.Run(fmt.Sprintf("%dx%dx%d %v %dT", s.m, s.n, s.k, s.dt, threads), func(b *testing.B) {
				be := New(threads)
				x, w := filled(be, kernels.F32, s.m, s.k), filled(be, s.dt, s.n, s.k)
				y := be.Alloc(kernels.F32, s.m, s.n)
				rate(b, be, 2*s.m*s.n*s.k, func() { be.Linear(y, x, w, kernels.Epilogue{}) })
			})
		}
	}
}

func BenchmarkConv(b *testing.B) {
	for _, s := range []struct{ n, size, cin, cout, k int }{
		{16, 8, 64, 64, 3}, {4, 32, 32, 32, 3}, {4, 64, 32, 3, 3}, {16, 16, 64, 128, 1},
	} {
		name := fmt.Sprintf("%dx%dx%dx%d to %d, %dx%d", s.n, s.size, s.size, s.cin, s.cout, s.k, s.k)
		b.Run(name, func(b *testing.B) {
			be := New(1)
			x := filled(be, kernels.F32, s.n, s.size, s.size, s.cin)
			w := filled(be, kernels.F32, s.cout, s.cin, s.k, s.k)
			y := be.Alloc(kernels.F32, s.n, s.size, s.size, s.cout)
			p := s.k / 2
			spec := kernels.ConvSpec{Top: p, Left: p, Bottom: p, Right: p}
			rate(b, be, 2*y.Len()*s.cin*s.k*s.k, func() { be.Conv(y, x, w, spec) })
		})
	}
}

func BenchmarkAttention(b *testing.B) {
	for _, s := range []struct{ batch, lq, lk, h, d int }{
		{16, 64, 64, 4, 32}, {64, 16, 16, 4, 32}, {1, 1024, 1024, 4, 64}, {16, 64, 12, 4, 32},
	} {
		b.Run(fmt.Sprintf("%dx%dx%d, %d heads of %d", s.batch, s.lq, s.lk, s.h, s.d), func(b *testing.B) {
			be := New(1)
			q, y := filled(be, kernels.F32, s.batch, s.lq, s.h, s.d), be.Alloc(kernels.F32, s.batch, s.lq, s.h, s.d)
			k := filled(be, kernels.F32, s.batch, s.lk, s.h, s.d)
			rate(b, be, 4*q.Len()*s.lk, func() { be.Attention(y, q, k, k, kernels.AttentionSpec{Scale: 0.2}) })
		})
	}
}

// BenchmarkRows reports millions of elements a second for what is bound by rows, not by products.
func BenchmarkRows(b *testing.B) {
	be := New(1)
	x := filled(be, kernels.F32, 4, 16, 16, 128)
	y := be.Alloc(kernels.F32, 4, 16, 16, 128)
	for name, f := range map[string]func(){
		"layer norm": func() { be.Norm(y, x, kernels.NormSpec{Eps: 1e-6}) },
		"group norm": func() { be.Norm(y, x, kernels.NormSpec{Kind: kernels.GroupNorm, Groups: 8, Eps: 1e-6}) },
		"silu":       func() { be.Unary(y, x, kernels.SiLU) },
		"gelu":       func() { be.Unary(y, x, kernels.GELUTanh) },
		"add":        func() { be.Binary(y, x, y, kernels.Add) },
		"permute":    func() { be.Copy(y.Reshape(16, 4, 16, 128), x.Permute(1, 0, 2, 3)) },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				f()
			}
			if err := be.Wait(); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(x.Len())*float64(b.N)/b.Elapsed().Seconds()/1e6, "Melem/s")
		})
	}
}

// BenchmarkTurned: queries and keys of STDiT-XL/2 (16x256x256) normalised and turned along the frames, in one
// call and in the three that it stands for.
func BenchmarkTurned(b *testing.B) {
	for _, dt := range []kernels.DType{kernels.F32, kernels.BF16} {
		be := New(1)
		qk := filled(be, dt, 16, 256, 3, 16, 72).Narrow(2, 0, 2)
		weight := filled(be, dt, 2, 1, 72)
		angles := filled(be, dt, 16, 1, 1, 1, 36).Expand(16, 256, 2, 16, 36)
		spec := kernels.NormSpec{Kind: kernels.RMSNorm, Eps: 1e-6, Cos: angles, Sin: angles}
		spec.Weight = weight.Expand(qk.Shape...)
		for name, f := range map[string]func(){
			"one call": func() { be.Norm(qk, qk, spec) },
			"three calls": func() {
				for i := range 2 {
					part := qk.Narrow(2, i, 1)
					be.Norm(part, part, kernels.NormSpec{Kind: spec.Kind, Eps: spec.Eps, Weight: weight.Index(i).Index(0)})
				}
				be.Rope(qk, qk, angles, angles)
			},
		} {
			b.Run(fmt.Sprint(dt, " ", name), func(b *testing.B) {
				for b.Loop() {
					f()
				}
				if err := be.Wait(); err != nil {
					b.Fatal(err)
				}
			})
		}
	}
}

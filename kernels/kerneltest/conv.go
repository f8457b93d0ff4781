package kerneltest

import (
	"slices"
	"testing"

	"latentbeam/kernels"
)

// testConv tests convolutions of images: kernel sizes, strides, one-sided padding, upsampling, bias and residual.
func testConv(t *testing.T, newBackend func(int) kernels.Backend) {
	same := kernels.ConvSpec{Top: 1, Left: 1, Bottom: 1, Right: 1}
	double := same
	double.Upsample = 2
	for _, c := range []struct {
		name string
		x, w [4]int // (N, H, W, Cin), (Cout, Cin, KH, KW)
		spec kernels.ConvSpec
	}{
		{"1x1", [4]int{2, 5, 7, 9}, [4]int{6, 9, 1, 1}, kernels.ConvSpec{}},
		{"3x3 same", [4]int{2, 5, 7, 3}, [4]int{4, 3, 3, 3}, same},
		{"3x3 valid", [4]int{1, 5, 3, 5}, [4]int{2, 5, 3, 3}, kernels.ConvSpec{}},
		{"3x3 long sum", [4]int{1, 4, 4, 70}, [4]int{3, 70, 3, 3}, same},
		{"stride 2, right and bottom", [4]int{2, 6, 8, 3}, [4]int{5, 3, 3, 3},
			kernels.ConvSpec{Stride: 2, Bottom: 1, Right: 1}},
		{"patches 1x2", [4]int{1, 4, 6, 4}, [4]int{7, 4, 2, 2}, kernels.ConvSpec{Stride: 2}},
		{"upsample 2", [4]int{2, 3, 4, 3}, [4]int{4, 3, 3, 3}, double},
		{"uneven kernel", [4]int{1, 6, 7, 2}, [4]int{3, 2, 2, 5}, kernels.ConvSpec{Top: 2, Right: 3}},
		{"more padding than image", [4]int{1, 1, 1, 2}, [4]int{3, 2, 3, 3},
			kernels.ConvSpec{Top: 4, Left: 3, Bottom: 2, Right: 1}},
		{"many pixels", [4]int{1, 20, 19, 4}, [4]int{3, 4, 3, 3}, same},
		{"no image", [4]int{0, 5, 5, 2}, [4]int{3, 2, 3, 3}, kernels.ConvSpec{}},
		{"no channel", [4]int{1, 5, 5, 0}, [4]int{3, 0, 3, 3}, kernels.ConvSpec{}},
	} {
		for _, l := range layouts {
			t.Run(c.name+" "+l.String(), func(t *testing.T) {
				f := newFixture(t, newBackend(2))
				for _, dt := range dtypes {
					f.conv(dt, l, c.x[:], c.w[:], c.spec)
				}
			})
		}
	}
}

// testConvVideo tests convolutions with a time axis: causal padding, strides in time, kernels that extend only in time.
func testConvVideo(t *testing.T, newBackend func(int) kernels.Backend) {
	causal := kernels.ConvSpec{Front: 2, Top: 1, Left: 1, Bottom: 1, Right: 1}
	half := causal
	half.StrideT, half.Front = 2, 1
	halfAll := causal
	halfAll.StrideT, halfAll.Stride = 2, 2
	double := causal
	double.Upsample = 2
	for _, c := range []struct {
		name string
		x, w [5]int // (N, T, H, W, Cin), (Cout, Cin, KT, KH, KW)
		spec kernels.ConvSpec
	}{
		{"1x1x1", [5]int{2, 3, 4, 5, 9}, [5]int{6, 9, 1, 1, 1}, kernels.ConvSpec{}},
		{"causal", [5]int{2, 4, 3, 5, 3}, [5]int{4, 3, 3, 3, 3}, causal},
		{"one frame", [5]int{1, 1, 4, 4, 3}, [5]int{2, 3, 3, 3, 3}, causal},
		{"causal, long sum", [5]int{1, 3, 3, 2, 30}, [5]int{3, 30, 3, 3, 3}, causal},
		{"half the frames", [5]int{2, 6, 3, 4, 3}, [5]int{5, 3, 3, 3, 3}, half},
		{"half of everything", [5]int{1, 5, 4, 7, 3}, [5]int{5, 3, 3, 3, 3}, halfAll},
		{"upsample 2", [5]int{1, 3, 2, 3, 3}, [5]int{4, 3, 3, 3, 3}, double},
		{"valid", [5]int{1, 5, 4, 3, 5}, [5]int{2, 5, 3, 3, 3}, kernels.ConvSpec{}},
		{"time only", [5]int{1, 7, 2, 3, 4}, [5]int{3, 4, 4, 1, 1}, kernels.ConvSpec{Front: 1, Back: 2}},
		{"a frame at a time", [5]int{2, 3, 5, 4, 3}, [5]int{4, 3, 1, 3, 3},
			kernels.ConvSpec{Top: 1, Left: 1, Bottom: 1, Right: 1}},
		{"uneven kernel", [5]int{1, 4, 5, 6, 2}, [5]int{3, 2, 4, 2, 3}, kernels.ConvSpec{Back: 2, Right: 3}},
		{"more padding than frames", [5]int{1, 1, 2, 2, 2}, [5]int{3, 2, 3, 1, 1},
			kernels.ConvSpec{Front: 4, Back: 3}},
		{"patches", [5]int{1, 4, 4, 6, 4}, [5]int{7, 4, 2, 2, 2}, kernels.ConvSpec{Stride: 2, StrideT: 2}},
		{"many pixels", [5]int{1, 6, 9, 8, 4}, [5]int{3, 4, 3, 3, 3}, causal},
		{"no video", [5]int{0, 3, 5, 5, 2}, [5]int{3, 2, 3, 3, 3}, causal},
	} {
		for _, l := range layouts {
			t.Run(c.name+" "+l.String(), func(t *testing.T) {
				f := newFixture(t, newBackend(2))
				for _, dt := range dtypes {
					f.conv(dt, l, c.x[:], c.w[:], c.spec)
				}
			})
		}
	}
}

// conv computes one case for images or videos, without and with bias and residual.
func (f *fixture) conv(dt kernels.DType, l layout, xs, ws []int, spec kernels.ConvSpec) {
	f.Helper()
	x, w := f.random(dt, xs...), f.random(dt, ws...)
	want := conv(x.video(1), w.video(2), spec)
	if len(xs) == 4 {
		want.shape = slices.Delete(want.shape, 1, 2)
	}
	xt, wt := f.operand(dt, l, x), f.operand(dt, l, w)
	dst, read := f.result(dt, l, want.shape...)
	f.Conv(dst, xt, wt, spec)
	f.check("plain", dt, read(), want)

	bias, residual := f.random(dt, ws[0]), f.random(dt, want.shape...)
	for i := range want.data {
		want.data[i] += bias.data[i%ws[0]]
	}
	want, largest := want.rounded(dt) // intermediate results have the type of dst, see Backend
	for i := range want.data {
		want.data[i] += residual.data[i]
	}
	spec.Bias, spec.Residual = f.operand(dt, l, bias), f.operand(dt, l, residual)
	f.Conv(dst, xt, wt, spec)
	f.checkScaled("with bias and residual", dt, largest, read(), want)

	dst, read = f.result(dt, l, want.shape...)
	f.Copy(dst, spec.Residual)
	spec.Residual = dst
	f.Conv(dst, xt, wt, spec)
	f.checkScaled("onto its residual", dt, largest, read(), want)
}

// video adds a time axis of length 1 to an image or its kernel.
func (a array) video(axis int) array {
	if len(a.shape) == 4 {
		a.shape = slices.Insert(slices.Clone(a.shape), axis, 1)
	}
	return a
}

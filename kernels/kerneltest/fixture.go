package kerneltest

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"latentbeam/kernels"
)

var nan = float32(math.NaN())

// array is a row-major host tensor of the reference.
type array struct {
	shape []int
	data  []float64
}

func newArray(shape ...int) array {
	return array{slices.Clone(shape), make([]float64, kernels.Elements(shape))}
}

// at returns a pointer to the element at index.
func (a array) at(index ...int) *float64 {
	off := 0
	for i, d := range a.shape {
		off = off*d + index[i]
	}
	return &a.data[off]
}

// layout is the memory layout of an operand.
type layout int

const (
	dense    layout = iota // row-major
	padded                 // narrowed on every axis, with NaN around it
	reversed               // axes stored in the reverse order
)

var layouts = []layout{dense, padded, reversed}

func (l layout) String() string { return [...]string{"dense", "padded", "reversed"}[l] }

// fixture is a backend under test with a random number generator.
type fixture struct {
	*testing.T
	kernels.Backend
	rand *rand.Rand
}

func newFixture(t *testing.T, b kernels.Backend) *fixture {
	return &fixture{t, b, rand.New(rand.NewPCG(1, 2))}
}

// rounded returns a rounded to dt, and its largest magnitude.
func (a array) rounded(dt kernels.DType) (array, float64) {
	out, largest := newArray(a.shape...), 0.0
	for i, x := range a.data {
		out.data[i] = float64(dt.Round(float32(x)))
		largest = max(largest, math.Abs(x))
	}
	return out, largest
}

// random returns an array of values in [-1, 1) that dt represents exactly.
func (f *fixture) random(dt kernels.DType, shape ...int) array {
	a := newArray(shape...)
	for i := range a.data {
		a.data[i] = float64(dt.Round(f.rand.Float32()*2 - 1))
	}
	return a
}

// placeView returns a view of shape with layout l inside a base tensor, and the base.
func (f *fixture) placeView(dt kernels.DType, l layout, shape []int) (view, base kernels.Tensor) {
	switch l {
	case padded:
		wide := make([]int, len(shape))
		for i, d := range shape {
			wide[i] = d + 3
		}
		base = f.Alloc(dt, wide...)
		view = base
		for i, d := range shape {
			view = view.Narrow(i, 1+i%2, d)
		}
		return view, base
	case reversed:
		back := slices.Clone(shape)
		slices.Reverse(back)
		axes := make([]int, len(shape))
		for i := range axes {
			axes[i] = len(shape) - 1 - i
		}
		base = f.Alloc(dt, back...)
		return base.Permute(axes...), base
	}
	base = f.Alloc(dt, shape...)
	return base, base
}

// scatter writes a through view into host, the content of view's dense base.
func scatter(host []float32, view kernels.Tensor, a array) {
	for i, x := range a.data {
		host[offset(view, i)] = float32(x)
	}
}

// offset returns the offset in the base of element i of a view, in row-major order.
func offset(view kernels.Tensor, i int) int {
	off := view.Offset
	for ax := len(view.Shape) - 1; ax >= 0; ax-- {
		off += i % view.Shape[ax] * view.Strides[ax]
		i /= view.Shape[ax]
	}
	return off
}

// operand uploads a in layout l. Elements outside the view are NaN.
func (f *fixture) operand(dt kernels.DType, l layout, a array) kernels.Tensor {
	view, base := f.placeView(dt, l, a.shape)
	host := make([]float32, base.Len())
	for i := range host {
		host[i] = nan
	}
	scatter(host, view, a)
	f.Upload(base, host)
	return view
}

// result allocates a destination full of NaN. read returns its content and fails the test if elements outside the view were
// written.
func (f *fixture) result(dt kernels.DType, l layout, shape ...int) (dst kernels.Tensor, read func() array) {
	view, base := f.placeView(dt, l, shape)
	host := make([]float32, base.Len())
	for i := range host {
		host[i] = nan
	}
	f.Upload(base, host)
	return view, func() array {
		f.Helper()
		if err := f.Download(host, base); err != nil {
			f.Fatal(err)
		}
		a := newArray(shape...)
		for i := range a.data {
			at := offset(view, i)
			a.data[i] = float64(host[at])
			host[at] = nan
		}
		for i, x := range host {
			if x == x {
				f.Fatalf("element %d beside the destination was written: %v", i, x)
			}
		}
		return a
	}
}

// tolerance returns the allowed error of a result of storage type dt: relative for values above 1, else absolute.
func tolerance(dt kernels.DType) float64 {
	switch dt {
	case kernels.BF16:
		return 5e-3
	case kernels.F16:
		return 7e-4
	}
	return 1e-5
}

// check compares got with want.
func (f *fixture) check(name string, dt kernels.DType, got, want array) {
	f.Helper()
	f.checkScaled(name, dt, 1, got, want)
}

// checkScaled compares results whose intermediate values were up to scale: their errors remain even if the values cancel.
func (f *fixture) checkScaled(name string, dt kernels.DType, scale float64, got, want array) {
	f.Helper()
	if !slices.Equal(got.shape, want.shape) {
		f.Fatalf("%s: shape %v, want %v", name, got.shape, want.shape)
	}
	for i, w := range want.data {
		g := got.data[i]
		if g == w || g != g && w != w {
			continue
		}
		if !(math.Abs(g-w) <= tolerance(dt)*max(1, scale, math.Abs(w))) {
			f.Fatalf("%s: element %d of %v is %v, want %v", name, i, want.shape, g, w)
		}
	}
}

package kerneltest

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"latentbeam/kernels"
)

// testParts: a sum in parts gives the same bits on one rank and on several ranks, whichever borders divide the parts between
// them.
func testParts(t *testing.T, newBackend func(int) kernels.Backend) {
	f := newFixture(t, newBackend(2))
	for _, c := range []struct {
		m, n, k int
		borders []int
		dt      kernels.DType
	}{
		{7, 5, 40, []int{8, 16, 30}, kernels.F32},
		{65, 130, 1152, []int{72, 144, 576, 1080}, kernels.F32},
		{13, 33, 1100, []int{2, 1026}, kernels.F32}, // parts that are longer than one stage of a sum
		{9, 17, 96, []int{16, 32, 48, 64, 80}, kernels.BF16},
		{1, 1, 4, []int{2}, kernels.F16},
	} {
		name := fmt.Sprintf("(%d, %d, %d) in parts from %v, %v", c.m, c.n, c.k, c.borders, c.dt)
		x, w := f.random(c.dt, c.m, c.k), f.random(c.dt, c.n, c.k)
		bias, residual := f.random(kernels.F32, c.n), f.random(kernels.F32, c.m, c.n)
		want := linear(x, w)
		for i := range want.data {
			want.data[i] += bias.data[i%c.n] + residual.data[i]
		}
		tx, tw := f.operand(c.dt, dense, x), f.operand(c.dt, dense, w)
		rest := kernels.Epilogue{
			Bias: f.operand(kernels.F32, dense, bias), Residual: f.operand(kernels.F32, dense, residual),
		}
		whole, read := f.result(kernels.F32, dense, c.m, c.n)
		ep := rest
		ep.Parts = c.borders
		f.Linear(whole, tx, tw, ep)
		one := read()
		f.checkScaled(name, c.dt, math.Sqrt(float64(c.k))/3, one, want)
		f.compareAllDivisions(name, tx, tw, rest, c.borders, one)
		if f.Capabilities().Int8 {
			rest.Int8, ep.Int8 = true, true
			rounded, read := f.result(kernels.F32, dense, c.m, c.n)
			f.Linear(rounded, tx, tw, ep)
			f.compareAllDivisions(name+", int8", tx, tw, rest, c.borders, read())
		}
	}
}

// compareAllDivisions checks that several ranks give the bits of one rank, for every choice of borders between the ranks. The bits
// of cut choose borders.
func (f *fixture) compareAllDivisions(name string, x, w kernels.Tensor, rest kernels.Epilogue, borders []int, one array) {
	f.Helper()
	for cut := range 1 << len(borders) {
		got := f.computeInParts(x, w, rest, borders, cut, x.Dim(0), w.Dim(0))
		if !slices.Equal(got.data, one.data) {
			f.Errorf("%s: ranks divided at the borders %b give other bits than one rank", name, cut)
		}
	}
}

// computeInParts computes a product as ranks do that are divided at the chosen borders: each rank adds its parts to the sums of the
// previous one, and the last one applies the epilogue.
func (f *fixture) computeInParts(x, w kernels.Tensor, rest kernels.Epilogue, borders []int, cut, m, n int) array {
	k := x.Dim(1)
	sum, _ := f.result(kernels.F32, dense, m, n)
	dst, read := f.result(kernels.F32, padded, m, n)
	for from, i := 0, 0; from < k; {
		ep := kernels.Epilogue{Int8: rest.Int8}
		end := k
		for ; i < len(borders); i++ {
			if cut>>i&1 == 1 {
				end = borders[i]
				i++
				break
			}
			ep.Parts = append(ep.Parts, borders[i]-from)
		}
		if from > 0 {
			ep.Onto = sum
		}
		out := sum
		if end == k {
			ep.Bias, ep.Residual, out = rest.Bias, rest.Residual, dst
		}
		f.Linear(out, x.Narrow(1, from, end-from), w.Narrow(1, from, end-from), ep)
		from = end
	}
	return read()
}

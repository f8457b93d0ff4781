package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"latentbeam/kernels"
)

// int8Reference computes x (m, k) times w (n, k) as Epilogue.Int8 defines it, without kernels: the terms are divided at borders into parts, and
// each row of a part is rounded to whole numbers from -127 to 127, with a scale of its own.
func int8Reference(x, w []float32, m, n, k int, borders []int) []float32 {
	dst := make([]float32, m*n)
	round := func(row []float32) (q []int64, scale float32) {
		most := float32(0)
		for _, v := range row {
			most = max(most, float32(math.Abs(float64(v))))
		}
		q = make([]int64, len(row))
		if most < 0x1p-100 {
			return q, 0
		}
		factor := 127 / most
		for i, v := range row {
			q[i] = int64(math.RoundToEven(float64(float32(v * factor))))
		}
		return q, most / 127
	}
	from := 0
	for p := range len(borders) + 1 {
		end := k
		if p < len(borders) {
			end = borders[p]
		}
		for i := range m {
			a, sa := round(x[i*k+from : i*k+end])
			for j := range n {
				b, sb := round(w[j*k+from : j*k+end])
				sum := int64(0)
				for q := range a {
					sum += a[q] * b[q]
				}
				y := float32(float32(float32(sum)*sb) * sa)
				if p > 0 {
					y = dst[i*n+j] + y
				}
				dst[i*n+j] = y
			}
		}
		from = end
	}
	return dst
}

// int8Backend returns a backend that uses a set of instructions.
func int8Backend(set *int8Set, threads int) *Backend {
	b, t := New(threads), *portable
	t.int8 = set
	b.tier = &t
	return b
}

// TestInt8SameBits: every set of instructions gives the bits of int8Reference, for all shapes, parts, numbers of threads and layouts
// of w.
func TestInt8SameBits(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		m, n, k int
		parts   []int
	}{
		{1, 1, 1, nil}, {3, 5, 7, nil}, {7, 80, 66, []int{2, 34}}, {50, 33, 130, []int{64}}, {195, 131, 48, nil},
		{13, 17, 2311, []int{2060}}, {2, 64, 4099, nil},
	} {
		x, w := make([]float32, c.m*c.k), make([]float32, c.n*c.k)
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
		for i := range w {
			w[i] = kernels.FromBF16(kernels.ToBF16(float32(r.NormFloat64())))
		}
		// The last row begins with zeros. The first row of x and of w is all ones, so that all its 8-bit numbers are 127, and the sum of two
		// products does not fit into an int16.
		clear(x[c.k*(c.m-1):][:c.k/2+1])
		for i := range c.k {
			if c.m > 1 {
				x[i], w[i] = 1, 1
			}
		}
		want := int8Reference(x, w, c.m, c.n, c.k, c.parts)
		for _, set := range int8SetsHere() {
			for _, threads := range []int{1, 3} {
				for _, kept := range []bool{false, true} {
					name := fmt.Sprintf("%s %v, %d threads, packed weights kept: %v", set.name, c, threads, kept)
					b := int8Backend(set, threads)
					tx, td := b.Alloc(kernels.F32, c.m, c.k), b.Alloc(kernels.F32, c.m, c.n)
					b.Upload(tx, x)
					tw, err := b.Weights(kernels.BF16, []int{c.n, c.k}, kernels.BF16.Bytes(w))
					if err != nil {
						t.Fatal(err)
					}
					if !kept {
						b.Passing(tw)
					}
					got := make([]float32, c.m*c.n)
					for range 2 {
						b.Linear(td, tx, tw, kernels.Epilogue{Int8: true, Parts: c.parts})
						if err := b.Download(got, td); err != nil {
							t.Fatal(name, err)
						}
						for i := range got {
							if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
								t.Fatalf("%s: element %d is %v, want %v", name, i, got[i], want[i])
							}
						}
					}
				}
			}
		}
	}
}

// TestInt8SeparateParts: parts that are computed one by one, each added to the sum of the previous ones, give the bits of one call.
func TestInt8SeparateParts(t *testing.T) {
	const m, n, k, at = 9, 20, 70, 36
	b := New(2)
	x, w := filled(b, kernels.F32, m, k), filled(b, kernels.F32, n, k)
	whole, parts := b.Alloc(kernels.F32, m, n), b.Alloc(kernels.F32, m, n)
	b.Linear(whole, x, w, kernels.Epilogue{Int8: true, Parts: []int{at}, Act: kernels.SiLU})
	b.Linear(parts, x.Narrow(1, 0, at), w.Narrow(1, 0, at), kernels.Epilogue{Int8: true})
	b.Linear(parts, x.Narrow(1, at, k-at), w.Narrow(1, at, k-at), kernels.Epilogue{Int8: true, Onto: parts})
	b.Linear(parts, x.Narrow(1, 0, 0), w.Narrow(1, 0, 0), kernels.Epilogue{Int8: true, Onto: parts, Act: kernels.SiLU})
	one, other := make([]float32, m*n), make([]float32, m*n)
	if err := b.Download(one, whole); err != nil {
		t.Fatal(err)
	}
	if err := b.Download(other, parts); err != nil {
		t.Fatal(err)
	}
	for i := range one {
		if one[i] != other[i] {
			t.Fatalf("element %d is %v from separate parts, %v from one call", i, other[i], one[i])
		}
	}
}

// TestInt8NotFinite: a row with infinity or NaN gives a result that is not finite; other rows are not affected.
func TestInt8NotFinite(t *testing.T) {
	const m, n, k = 5, 18, 37
	for _, set := range int8SetsHere() {
		for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))} {
			b := int8Backend(set, 1)
			values := make([]float32, m*k)
			for i := range values {
				values[i] = float32(i%7) - 3
			}
			values[2*k+11] = bad
			x, dst := b.Alloc(kernels.F32, m, k), b.Alloc(kernels.F32, m, n)
			b.Upload(x, values)
			b.Linear(dst, x, filled(b, kernels.F32, n, k), kernels.Epilogue{Int8: true})
			got := make([]float32, m*n)
			if err := b.Download(got, dst); err != nil {
				t.Fatal(err)
			}
			for i, y := range got {
				if (y != y) != (i/n == 2) {
					t.Fatalf("%s, %v in row 2: element %d of row %d is %v", set.name, bad, i%n, i/n, y)
				}
			}
		}
	}
}

// TestInt8Attention: every set of instructions gives the same bits, which agree with a softmax over the scores that
// AttentionSpec.Int8 defines.
func TestInt8Attention(t *testing.T) {
	for _, c := range []struct{ lq, lk, d int }{{1, 1, 1}, {7, 20, 6}, {64, 33, 72}, {61, 1030, 128}, {5, 513, 37}} {
		const h = 2
		r := rand.New(rand.NewPCG(3, 4))
		values := func(rows int) []float32 {
			x := make([]float32, rows*h*c.d)
			for i := range x {
				x[i] = float32(r.NormFloat64()) + float32(i%c.d%3) // the mean of keys is not zero
			}
			return x
		}
		q, k, v := values(c.lq), values(c.lk), values(c.lk)
		spec := kernels.AttentionSpec{Scale: float32(1 / math.Sqrt(float64(c.d))), Int8: true}
		var first []float32
		for _, set := range int8SetsHere() {
			b := int8Backend(set, 2)
			up := func(x []float32, rows int) kernels.Tensor {
				t := b.Alloc(kernels.F32, 1, rows, h, c.d)
				b.Upload(t, x)
				return t
			}
			dst := b.Alloc(kernels.F32, 1, c.lq, h, c.d)
			b.Attention(dst, up(q, c.lq), up(k, c.lk), up(v, c.lk), spec)
			got := make([]float32, len(q))
			if err := b.Download(got, dst); err != nil {
				t.Fatal(err)
			}
			if first == nil {
				first = got
			}
			for i := range got {
				if math.Float32bits(got[i]) != math.Float32bits(first[i]) {
					t.Fatalf("%s %v: element %d is %v, %v with another set", set.name, c, i, got[i], first[i])
				}
			}
		}
		for head := range h {
			of := func(x []float32, rows int) []float32 {
				out := make([]float32, 0, rows*c.d)
				for i := range rows {
					out = append(out, x[(i*h+head)*c.d:][:c.d]...)
				}
				return out
			}
			keys, vs := of(k, c.lk), of(v, c.lk)
			for j := range c.d {
				mean := float32(0)
				for i := range c.lk {
					mean += keys[i*c.d+j]
				}
				mean /= float32(c.lk)
				for i := range c.lk {
					keys[i*c.d+j] -= mean
				}
			}
			scores := int8Reference(of(q, c.lq), keys, c.lq, c.lk, c.d, nil)
			for i := range c.lq {
				sum, want := 0.0, make([]float64, c.d)
				for j := range c.lk {
					w := math.Exp(float64(spec.Scale) * float64(scores[i*c.lk+j]))
					sum += w
					for n := range want {
						want[n] += w * float64(vs[j*c.d+n])
					}
				}
				for n := range want {
					if got := float64(first[(i*h+head)*c.d+n]); math.Abs(got-want[n]/sum) > 2e-5 {
						t.Fatalf("%v: query %d, head %d, element %d is %v, want %v", c, i, head, n, got, want[n]/sum)
					}
				}
			}
		}
	}
}

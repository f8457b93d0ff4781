package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"latentbeam/kernels"
)

// allTiers returns the tiers of this processor, including the slow ones in plain Go.
func allTiers() []*tier { return tiers() }

// TestReduceLayout: the fields of reduce have the offsets that the assembly uses.
func TestReduceLayout(t *testing.T) {
	var r reduce
	got := [...]uintptr{unsafe.Offsetof(r.c), unsafe.Offsetof(r.ldc), unsafe.Offsetof(r.blocks),
		unsafe.Offsetof(r.offs), unsafe.Offsetof(r.a), unsafe.Offsetof(r.b), unsafe.Offsetof(r.k),
		unsafe.Offsetof(r.lda), unsafe.Offsetof(r.add), unsafe.Offsetof(r.separate), unsafe.Offsetof(r.ahead),
		unsafe.Offsetof(r.aheadStride)}
	for i, at := range got {
		if at != uintptr(8*i) {
			t.Errorf("field %d of reduce is at byte %d, the assembly expects %d", i, at, 8*i)
		}
	}
}

// TestMultiply compares products with float64, in every tier, for every kind of term, stored type and way of packing, for all small numbers of
// rows and odd numbers of columns and terms. A row alone gives the same bits as among others.
func TestMultiply(t *testing.T) {
	for _, tier := range allTiers() {
		for d := range dots {
			if tier.kernels[d] == nil {
				continue
			}
			for _, dt := range []kernels.DType{kernels.F32, kernels.BF16, kernels.F16} {
				if d == dotBF16 && dt != kernels.BF16 {
					continue
				}
				t.Run(fmt.Sprint(tier, " dot ", d, " ", dt), func(t *testing.T) {
					for _, m := range []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16, 17, 31, 32, 33, 50} {
						for _, byRows := range []bool{true, false} {
							multiplyCase(t, tier, d, dt, byRows, m, 1+m*13%150, 1+m*29%90, 1+m%3)
						}
					}
					multiplyCase(t, tier, d, dt, true, 5, 67, 5000, 1)
					multiplyCase(t, tier, d, dt, false, 5, 80, 4099, 1)
				})
			}
		}
	}
}

// multiplyCase multiplies m rows by n columns over k terms in each of some blocks, twice into the same sums, and checks them.
func multiplyCase(t *testing.T, tier *tier, d dot, dt kernels.DType, byRows bool, m, n, k, blocks int) {
	t.Helper()
	r := rand.New(rand.NewPCG(uint64(m), uint64(n)))
	terms := d.terms(k)
	a, at := randomOperand(r, d, m*blocks, terms, k) // row i of block b is row b*m+i
	b := make([]float64, blocks*k*n)                 // term (block, k), column n
	dst := make([]float32, tier.packedSize(n, terms*blocks)/4)
	for block := range blocks {
		packBlock(r, tier, d, dt, byRows, unsafe.Pointer(unsafe.SliceData(dst)), block, blocks, n, k,
			b[block*k*n:(block+1)*k*n])
	}
	offs := make([]int64, blocks)
	for i := range offs {
		offs[i] = int64(i * m * terms * 4)
	}
	const ldc = 192
	c := make([]float32, (m+1)*ldc)
	call := &reduce{c: unsafe.Pointer(&c[0]), ldc: ldc * 4, blocks: blocks, offs: unsafe.Pointer(&offs[0]),
		a: unsafe.Pointer(&at[0]), b: unsafe.Pointer(&dst[0]), k: terms, lda: terms * 4}
	tier.multiply(call, d, m, n)
	call.add = 1 // prefetching must not change the result
	call.startPrefetch(uintptr(unsafe.Pointer(&dst[0])), 4096, 64, 4*aheadBytes)
	tier.multiply(call, d, m, n)
	call.ahead = 0
	for i := range m {
		for j := range n {
			want := 0.0
			for block := range blocks {
				for q := range k {
					want += a[(block*m+i)*k+q] * b[(block*k+q)*n+j]
				}
			}
			if got := float64(c[i*ldc+j]) / 2; math.Abs(got-want) > 1e-5*math.Sqrt(float64(k*blocks))*2 {
				t.Fatalf("(%d, %d, %d) of %d blocks, by rows %v: element %d,%d is %v, want %v",
					m, n, k, blocks, byRows, i, j, got, want)
			}
		}
	}
	alone := make([]float32, ldc)
	for i := range m {
		call.c, call.a = unsafe.Pointer(&alone[0]), unsafe.Pointer(&at[i*terms])
		for call.add = range 2 {
			tier.multiply(call, d, 1, n)
		}
		for j := range n {
			if alone[j] != c[i*ldc+j] {
				t.Fatalf("(%d, %d, %d): row %d alone has other bits", m, n, k, i)
			}
		}
	}
}

// randomOperand returns rows of k numbers, and the same numbers in the form that kernels read: 32 bits for a number or for a pair of bf16.
func randomOperand(r *rand.Rand, d dot, rows, terms, k int) ([]float64, []uint32) {
	values, dwords := make([]float64, rows*k), make([]uint32, rows*terms)
	for i := range values {
		x := r.Float32()*2 - 1
		if row, at := i/k, i%k; d == dotBF16 {
			h := kernels.ToBF16(x)
			x = kernels.FromBF16(h)
			dwords[row*terms+at/2] |= uint32(h) << (at % 2 * 16)
		} else {
			dwords[row*terms+at] = math.Float32bits(x)
		}
		values[i] = float64(x)
	}
	return values, dwords
}

// packBlock packs random numbers as one block and puts them, term by term, into b.
func packBlock(
	r *rand.Rand, tier *tier, d dot, dt kernels.DType, byRows bool, dst unsafe.Pointer, block, blocks, n, k int,
	b []float64,
) {
	const pad = 3 // elements between the rows; they are NaN, to show whether they are read
	rows, width := n, k
	if !byRows {
		rows, width = k, n
	}
	be := New(1)
	src := be.Alloc(dt, rows, width+pad)
	host := make([]float32, src.Len())
	for i := range host {
		host[i] = float32(math.NaN())
		if row, at := i/(width+pad), i%(width+pad); at < width {
			x := r.Float32()*2 - 1
			switch dt {
			case kernels.BF16:
				x = kernels.FromBF16(kernels.ToBF16(x))
			case kernels.F16:
				x = kernels.FromF16(kernels.ToF16(x))
			}
			host[i] = x
			if byRows {
				b[at*n+row] = float64(x)
			} else {
				b[row*n+at] = float64(x)
			}
		}
	}
	be.Upload(src, host)
	buf := src.Buf.(*buffer)
	p := packing{dst: dst, depth: d.terms(k) * blocks, first: d.terms(k) * block, dot: d,
		src: unsafe.Pointer(unsafe.SliceData(buf.u16)), stride: (width + pad) * dt.Size(), dtype: dt}
	if dt == kernels.F32 {
		p.src = unsafe.Pointer(unsafe.SliceData(buf.f32))
	}
	if byRows {
		tier.packNK(p, n, k)
	} else {
		tier.packKN(p, n, k)
	}
}

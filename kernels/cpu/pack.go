package cpu

import (
	"unsafe"

	"latentbeam/kernels"
)

// packing describes which elements are packed into operand B, and to which place. B consists of panels of neighbouring columns.
// Inside a panel the columns of one term are contiguous, term after term. The panel of column j starts j*depth dwords after the
// first, whatever the widths. The widths of the panels, from left to right, are those that tier.panel returns.
type packing struct {
	dst    unsafe.Pointer // the first panel
	depth  int            // all terms of a column: blocks * k of the reduce that will read it
	first  int            // index of the first term packed here
	dot    dot
	src    unsafe.Pointer
	stride int // bytes from column to column (packNK) or from row to row (packKN)
	dtype  kernels.DType
}

// packedSize returns the bytes of n packed columns of depth terms.
func (t *tier) packedSize(n, depth int) int { return t.padded(n) * depth * 4 }

// perTerm returns the number of elements per term.
func (d dot) perTerm() int {
	if d == dotBF16 {
		return 2
	}
	return 1
}

// terms returns the number of dwords for k elements: an odd last element of pairs is paired with a zero.
func (d dot) terms(k int) int {
	switch d {
	case dotBF16:
		return (k + 1) / 2
	case dotPairs:
		return (k + 1) &^ 1
	}
	return k
}

// multiple returns the divisor that a number of elements must have to fill whole terms, or whole pairs of terms.
func (d dot) multiple() int {
	if d == dotF32 {
		return 1
	}
	return 2
}

// stage converts stageTerms or batchTerms to terms of d: a pair counts once.
func (d dot) stage(terms int) int {
	if d == dotPairs {
		return 2 * terms
	}
	return terms
}

// form is the conversion from a stored type to the elements of a panel.
type form uint8

const (
	formF32   form = iota
	formBF16       // widened to fp32
	formF16        // widened to fp32
	formPairs      // pairs of bf16, not converted
	forms
)

func (p *packing) form() form {
	switch {
	case p.dot == dotBF16:
		return formPairs
	case p.dtype == kernels.BF16:
		return formBF16
	case p.dtype == kernels.F16:
		return formF16
	}
	return formF32
}

// bytes returns the size of a stored element.
func (f form) bytes() int {
	if f == formF32 {
		return 4
	}
	return 2
}

// packers holds a tier's routines that pack one panel of width columns, of which cols exist, with k elements each.
type packers struct {
	nk, kn func(f form, dst, src unsafe.Pointer, stride, width, cols, k int)
}

// packNK packs n columns of k elements if the elements of a column are contiguous: weights (N, K), keys (Lk, D). The padding
// columns of a panel may hold anything.
func (t *tier) packNK(p packing, n, k int) { t.packPanels(&p, t.pack.nk, p.stride, n, k) }

// packKN packs n columns of k elements if the columns of an element are contiguous: values (Lk, D).
func (t *tier) packKN(p packing, n, k int) { t.packPanels(&p, t.pack.kn, p.form().bytes(), n, k) }

// packPanels calls pack for each panel; step is the distance between columns of the source in bytes.
func (t *tier) packPanels(
	p *packing, pack func(f form, dst, src unsafe.Pointer, stride, width, cols, k int), step, n, k int,
) {
	f := p.form()
	for j := 0; j < n; {
		width := t.panel(n - j)
		dst := unsafe.Add(p.dst, (j*p.depth+p.first*width)*4)
		pack(f, dst, unsafe.Add(p.src, j*step), p.stride, width, min(width, n-j), k)
		if p.dot == dotPairs && k%2 != 0 {
			clear(unsafe.Slice((*float32)(unsafe.Add(dst, k*width*4)), width))
		}
		j += width
	}
}

// packersGo packs as fp32 in plain Go.
var packersGo = packers{nk: packNKGo, kn: packKNGo}

func packNKGo(f form, dst, src unsafe.Pointer, stride, width, cols, k int) {
	out := unsafe.Slice((*float32)(dst), k*width)
	var buf [64]float32
	for c := range cols {
		row := unsafe.Add(src, c*stride)
		for k0 := 0; k0 < k; k0 += len(buf) {
			part := buf[:min(len(buf), k-k0)]
			widen(part, unsafe.Add(row, k0*f.bytes()), f)
			at := k0*width + c
			for _, x := range part {
				out[at] = x
				at += width
			}
		}
	}
}

func packKNGo(f form, dst, src unsafe.Pointer, stride, width, cols, k int) {
	out := unsafe.Slice((*float32)(dst), k*width)
	for i := range k {
		widen(out[i*width:][:cols], unsafe.Add(src, i*stride), f)
	}
}

// widen reads stored elements as fp32.
func widen(dst []float32, src unsafe.Pointer, f form) {
	switch f {
	case formF32:
		copy(dst, unsafe.Slice((*float32)(src), len(dst)))
	case formBF16:
		for i, h := range unsafe.Slice((*uint16)(src), len(dst)) {
			dst[i] = kernels.FromBF16(h)
		}
	case formF16:
		for i, h := range unsafe.Slice((*uint16)(src), len(dst)) {
			dst[i] = kernels.FromF16(h)
		}
	}
}

package cpu

import (
	"unsafe"

	"latentbeam/kernels"
)

// roundedRow is scaleRow for destinations of 16 bits. It rounds like PyTorch's separate modules: LayerNorm is rounded once, at
// its end; RMSNorm is also rounded before its weight.
func (n *norm) roundedRow(w *worker, m *modulation, out, row []float32, mean, factor float32) {
	switch weight := n.weightOf(m); {
	case weight != nil && n.spec.Kind == kernels.RMSNorm:
		n.math.standard(out, row, mean, factor)
		w.round(n.math, n.dst.DType, out)
		n.math.mul(out, out, weight)
	case weight != nil && n.bias != nil:
		n.math.affine(out, row, weight, n.bias, mean, factor)
		n.roundResult(w, m, out)
		return
	case weight != nil:
		n.math.weigh(out, row, weight, mean, factor)
	default:
		n.math.standard(out, row, mean, factor)
	}
	if n.bias != nil {
		n.math.add(out, out, n.bias)
	}
	n.roundResult(w, m, out)
}

// fusedRow is roundedRow and the store in one pass, with the same bits, for the cases that STDiT uses: a norm without operands,
// a norm with modulation, and RMSNorm with a weight. It reports whether the tier has a routine for the case.
func (n *norm) fusedRow(w *worker, m *modulation, dst *cursor, row []float32, mean, factor float32) bool {
	plain := n.dst.DType == kernels.BF16 && n.bias == nil && n.spec.Act == kernels.Identity
	if !plain || n.math.modulateBF16 == nil {
		return false
	}
	switch weight := n.weightOf(m); {
	case weight == nil && n.scale.view == nil:
		half := dst.halfTarget(w)
		n.math.standardBF16(half, row, mean, factor)
		dst.storeHalf(half)
	case weight == nil:
		a, b := m.factors(n.math, kernels.BF16)
		half := dst.halfTarget(w)
		n.math.modulateBF16(half, row, a, b, mean, factor)
		dst.storeHalf(half)
	case weight != nil && n.scale.view == nil && n.spec.Kind == kernels.RMSNorm:
		half := dst.halfTarget(w)
		n.math.weighBF16(half, row, weight, mean, factor)
		dst.storeHalf(half)
	default:
		return false
	}
	return true
}

// roundResult rounds the result of the norm itself, and the result of each step of the modulation if there is one.
func (n *norm) roundResult(w *worker, m *modulation, out []float32) {
	dt := n.dst.DType
	if n.scale.view != nil {
		w.round(n.math, dt, out)
		factor, shift := m.factors(n.math, dt)
		n.math.mul(out, out, factor)
		w.round(n.math, dt, out)
		n.math.add(out, out, shift)
	}
	if n.spec.Act != kernels.Identity {
		w.round(n.math, dt, out)
	}
}

// factors returns the factor 1 + scale of the current row, rounded to dt, and the shift.
func (m *modulation) factors(math *rowMath, dt kernels.DType) (factor, shift []float32) {
	scale, shift := m.rows()
	if m.factorRow == nil || m.factorAt != m.scaleAt {
		m.factorAt, m.factorRow = m.scaleAt, m.worker.floats(3, len(scale))
		for i, s := range scale {
			m.factorRow[i] = 1 + s
		}
		m.worker.round(math, dt, m.factorRow)
	}
	return m.factorRow, shift
}

// round rounds row to dt, a type of 16 bits.
func (w *worker) round(math *rowMath, dt kernels.DType, row []float32) {
	if round := math.round[dt]; round != nil {
		round(row)
		return
	}
	half := unsafe.Slice((*uint16)(w.half.acquire(len(row)*2)), len(row))
	math.narrow[dt](half, row)
	math.widen[dt](row, half)
}

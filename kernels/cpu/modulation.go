package cpu

// modulation holds the scale and shift of the current row as fp32, and its weight if each row has its own. Rows usually share
// them, so they are read again only when they change.
type modulation struct {
	worker       *worker
	on           bool // scale and shift are set
	scale, shift cursor
	scaleAt      int // offset from which scaleRow and shiftRow were read
	shiftAt      int
	scaleRow     []float32
	shiftRow     []float32
	factorAt     int // offset of the scaleRow from which factorRow was computed
	factorRow    []float32

	weight    cursor // without rows if all rows share one weight
	weightAt  int
	weightRow []float32
}

// modulation returns the modulation of row i.
func (n *norm) modulation(w *worker, i int) modulation {
	m := modulation{worker: w}
	if n.scale.view != nil {
		m.on, m.scale, m.shift = true, n.scale.cursor(i), n.shift.cursor(i)
	}
	if n.weights.view != nil {
		m.weight = n.weights.cursor(i)
	}
	return m
}

func (m *modulation) next() {
	if m.on {
		m.scale.next()
		m.shift.next()
	}
	if m.weight.rows != nil {
		m.weight.next()
	}
}

func (m *modulation) rows() (scale, shift []float32) {
	if m.scaleRow == nil || m.scaleAt != m.scale.off || m.shiftAt != m.shift.off {
		m.scaleAt, m.shiftAt = m.scale.off, m.shift.off
		m.scaleRow = m.scale.read(m.worker.floats(1, m.scale.rows.n))
		m.shiftRow = m.shift.read(m.worker.floats(2, m.shift.rows.n))
	}
	return m.scaleRow, m.shiftRow
}

// weightOf returns the weight of the current row, or nil.
func (n *norm) weightOf(m *modulation) []float32 {
	if m.weight.rows == nil {
		return n.weight
	}
	if m.weightRow == nil || m.weightAt != m.weight.off {
		m.weightAt = m.weight.off
		m.weightRow = m.weight.read(m.worker.floats(4, n.x.n))
	}
	return m.weightRow
}

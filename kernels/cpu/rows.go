package cpu

import "unsafe"

// rows describes a view as rows along its last axis. For attention, they are the rows of one head.
type rows struct {
	*view
	start int           // offset of row 0 in the buffer
	count int           // number of rows
	n     int           // elements per row
	step  int           // stride inside a row
	jump  int           // from row to row, within a run of rows
	run   int           // rows per run; all rows if depth is 0
	axes  [maxAxes]axis // leading axes outside the run
	depth int           // number of axes
}

// axis is a leading axis that cannot be merged with its inner neighbour.
type axis struct{ length, jump int }

// newRows uses the last axis of v as the row and merges neighbouring leading axes if their strides allow it.
func newRows(v *view) rows {
	last := len(v.Shape) - 1
	r := rows{view: v, start: v.Offset, count: 1, n: v.Shape[last], step: v.Strides[last], run: 1}
	for i, d := range v.Shape[:last] {
		r.count *= d
		switch {
		case d == 1:
		case r.run == 1:
			r.run, r.jump = d, v.Strides[i]
		case r.jump == v.Strides[i]*d:
			r.run, r.jump = r.run*d, v.Strides[i]
		default:
			r.axes[r.depth] = axis{r.run, r.jump}
			r.depth++
			r.run, r.jump = d, v.Strides[i]
		}
	}
	return r
}

// offset returns the offset of row i.
func (r *rows) offset(i int) int {
	if r.depth == 0 {
		return r.start + i*r.jump
	}
	off := r.start + i%r.run*r.jump
	i /= r.run
	for ax := r.depth - 1; ax >= 0; ax-- {
		off += i % r.axes[ax].length * r.axes[ax].jump
		i /= r.axes[ax].length
	}
	return off
}

// cursor is the offset of a row. It moves from row to row without divisions.
type cursor struct {
	rows *rows
	i    int // row
	left int // rows of its run from this one on
	off  int
}

// cursor returns a cursor at row i.
func (r *rows) cursor(i int) cursor {
	return cursor{rows: r, i: i, left: r.run - i%max(1, r.run), off: r.offset(i)}
}

// next moves on to the next row.
func (c *cursor) next() {
	c.i++
	c.left--
	c.off += c.rows.jump
	if c.left == 0 && c.i < c.rows.count {
		c.left, c.off = c.rows.run, c.rows.offset(c.i)
	}
}

// skip advances by n rows, at most to the end of the run.
func (c *cursor) skip(n int) {
	c.i += n - 1
	c.left -= n - 1
	c.off += (n - 1) * c.rows.jump
	c.next()
}

// read returns the row as fp32: its own memory if it is dense fp32, else a copy in scratch.
func (c *cursor) read(scratch []float32) []float32 {
	return c.rows.view.read(scratch, c.off, c.rows.step, c.rows.n)
}

// target returns the memory in which the row may be computed before it is stored.
func (c *cursor) target(scratch []float32) []float32 {
	return c.rows.view.target(scratch, c.off, c.rows.step, c.rows.n)
}

// halfTarget is target for a row of 16-bit elements without conversion.
func (c *cursor) halfTarget(w *worker) []uint16 {
	if n := c.rows.n; c.rows.step != 1 {
		return unsafe.Slice((*uint16)(w.half.acquire(n*2)), n)
	}
	return c.rows.buf.u16[c.off : c.off+c.rows.n]
}

// storeHalf stores the row that halfTarget returned.
func (c *cursor) storeHalf(row []uint16) {
	if off := c.off; c.rows.step != 1 {
		for _, x := range row {
			c.rows.buf.u16[off] = x
			off += c.rows.step
		}
	}
}

// store writes the row.
func (c *cursor) store(row []float32) { c.rows.view.store(row, c.off, c.rows.step) }

package cpu

import "unsafe"

// rows is a view as rows of its last axis. Attention makes its own, of one head.
type rows struct {
	*view
	start int           // of row 0 in the buffer
	count int           // rows
	n     int           // elements of a row
	step  int           // stride inside a row
	jump  int           // from row to row, within a run of rows
	run   int           // rows of a run; all of them where depth is 0
	axes  [maxAxes]axis // leading axes, depth of them
	depth int
}

// axis is a leading axis that its inner neighbour does not continue.
type axis struct{ length, jump int }

// newRows takes the last axis of v as the row; neighbouring leading axes that step alike are merged.
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

// offset returns where row i begins.
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

// cursor is where a row begins, from one row to the next without a division for each.
type cursor struct {
	rows *rows
	i    int // row
	left int // rows of its run from here on
	off  int
}

// cursor returns the place of row i.
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

// skip moves on by n rows, no further than the end of the run.
func (c *cursor) skip(n int) {
	c.i += n - 1
	c.left -= n - 1
	c.off += (n - 1) * c.rows.jump
	c.next()
}

// read returns the row as fp32: its own memory where it is dense fp32, else a copy in scratch.
func (c *cursor) read(scratch []float32) []float32 {
	return c.rows.view.read(scratch, c.off, c.rows.step, c.rows.n)
}

// target returns where the row may be computed before it is stored.
func (c *cursor) target(scratch []float32) []float32 {
	return c.rows.view.target(scratch, c.off, c.rows.step, c.rows.n)
}

// halfTarget is target for a row of 16-bit elements as they are.
func (c *cursor) halfTarget(w *worker) []uint16 {
	if n := c.rows.n; c.rows.step != 1 {
		return unsafe.Slice((*uint16)(w.half.acquire(n*2)), n)
	}
	return c.rows.buf.u16[c.off : c.off+c.rows.n]
}

// storeHalf writes what halfTarget gave.
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

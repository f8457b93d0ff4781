package cpu

import "unsafe"

// copyBand copies the part of the input that the output rows from y0 on depend on into the worker's scratch: rows of pixels of
// kt frames, as terms, with zeros where the kernel reaches outside the video.
func (c *conv) copyBand(w *worker, image, frame, y0, lines int) unsafe.Pointer {
	rows := (lines-1)*c.stride + c.kh
	p := w.band.acquire(c.kt * c.frame)
	for t := c.zeros; t < c.kt; t++ {
		at := frame*c.strideT - c.front + t
		for y := range rows {
			row := y0*c.stride - c.top + y
			dst := unsafe.Add(p, t*c.frame+y*c.line)
			if at < 0 || at >= c.depth || row < 0 || row >= c.height {
				clear(unsafe.Slice((*byte)(dst), c.line))
				continue
			}
			c.pixels(dst, c.x.Offset+image*c.x.Strides[0]+at*c.x.Strides[1]+row/c.up*c.x.Strides[2])
		}
	}
	return p
}

// pixels writes one row of a band; the input row starts at off.
func (c *conv) pixels(dst unsafe.Pointer, off int) {
	count := c.line / c.pixel
	left := min(c.left, count)
	inside := min(count-left, c.width)
	clear(unsafe.Slice((*byte)(dst), left*c.pixel))
	clear(unsafe.Slice((*byte)(unsafe.Add(dst, (left+inside)*c.pixel)), (count-left-inside)*c.pixel))
	dst = unsafe.Add(dst, left*c.pixel)
	row := rows{view: &c.x, step: c.x.Strides[4]}
	step := c.x.Strides[3]
	if c.up == 1 && step == c.cin && (row.step == 1 || c.cin == 1) && c.pixel == c.cin*4/c.dot.perTerm() {
		row.step = 1
		if inside > 0 {
			row.copyTerms(dst, off, inside*c.cin, c.dot)
		}
		return
	}
	for x := range inside {
		to := unsafe.Add(dst, x*c.pixel)
		if x%c.up == 0 {
			row.copyTerms(to, off+x/c.up*step, c.cin, c.dot)
			continue
		}
		copy(unsafe.Slice((*byte)(to), c.pixel), unsafe.Slice((*byte)(unsafe.Add(to, -c.pixel)), c.pixel))
	}
}

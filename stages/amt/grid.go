package amt

import (
	"math"

	"latentbeam/kernels"
	"latentbeam/stages/flow"
	"latentbeam/stages/nn"
)

// grid is an image with any number of channels in host memory.
type grid struct {
	rows, columns, c int
	values           []float32 // (rows, columns, c); nil: only the shape is needed
}

func newGrid(rows, columns, c int) grid {
	return grid{rows, columns, c, make([]float32, rows*columns*c)}
}

// like returns a grid of another size. If g has only a shape, the result has only a shape.
func (g grid) like(rows, columns, c int) grid {
	if g.values == nil {
		return grid{rows: rows, columns: columns, c: c}
	}
	return newGrid(rows, columns, c)
}

// eachRow calls do for all rows, unless g has only a shape.
func (g grid) eachRow(do func(y int)) {
	if g.values != nil {
		flow.Each(g.rows, do)
	}
}

// fetch downloads x (1, h, w, c).
func fetch(be kernels.Backend, x kernels.Tensor) (grid, error) {
	g := grid{rows: x.Dim(1), columns: x.Dim(2), c: x.Dim(3)}
	if !nn.Rehearses(be) {
		g.values = make([]float32, x.Len())
	}
	return g, be.Download(g.values, x)
}

// upload uploads a grid to a device: (1, h, w, c).
func (g grid) upload(be kernels.Backend) kernels.Tensor {
	x := be.Alloc(kernels.F32, 1, g.rows, g.columns, g.c)
	be.Upload(x, g.values)
	return x
}

// part returns n channels, starting at from.
func (g grid) part(from, n int) grid {
	out := g.like(g.rows, g.columns, n)
	out.eachRow(func(y int) {
		for i := y * g.columns; i < (y+1)*g.columns; i++ {
			copy(out.values[i*n:][:n], g.values[i*g.c+from:])
		}
	})
	return out
}

// concat concatenates the channels of all parts.
func concat(parts ...grid) grid {
	c := 0
	for _, p := range parts {
		c += p.c
	}
	out := parts[0].like(parts[0].rows, parts[0].columns, c)
	out.eachRow(func(y int) {
		for i := y * out.columns; i < (y+1)*out.columns; i++ {
			to := out.values[i*c:][:c]
			for _, p := range parts {
				to = to[copy(to, p.values[i*p.c:][:p.c]):]
			}
		}
	})
	return out
}

// plus returns the sum of two grids.
func (g grid) plus(other grid) grid {
	out := g.like(g.rows, g.columns, g.c)
	out.eachRow(func(y int) {
		for i := y * g.columns * g.c; i < (y+1)*g.columns*g.c; i++ {
			out.values[i] = g.values[i] + other.values[i]
		}
	})
	return out
}

// tap says how a place of a resized axis is computed.
type tap struct {
	from, next int
	weight     float32 // of next
}

// taps returns the taps of an axis of n places that is resized to n up / down places: bilinear, between the centres of places,
// as PyTorch's interpolate does with align_corners=False.
func taps(n, up, down int) []tap {
	out := make([]tap, n*up/down)
	shrink := float32(down) / float32(up)
	for i := range out {
		at := max(0, shrink*(float32(i)+0.5)-0.5)
		from := min(int(at), n-1)
		out[i] = tap{from, min(from+1, n-1), at - float32(from)}
	}
	return out
}

// resized returns the grid resized by up / down, with values multiplied by factor.
func (g grid) resized(up, down int, factor float32) grid {
	rows, columns := taps(g.rows, up, down), taps(g.columns, up, down)
	out := g.like(len(rows), len(columns), g.c)
	out.eachRow(func(y int) {
		r := rows[y]
		above, below := g.values[r.from*g.columns*g.c:], g.values[r.next*g.columns*g.c:]
		for x, p := range columns {
			to := out.values[(y*out.columns+x)*g.c:][:g.c]
			a, b := above[p.from*g.c:][:g.c], above[p.next*g.c:][:g.c]
			c, d := below[p.from*g.c:][:g.c], below[p.next*g.c:][:g.c]
			for i := range to {
				upper := float32((1-p.weight)*a[i]) + float32(p.weight*b[i])
				lower := float32((1-p.weight)*c[i]) + float32(p.weight*d[i])
				to[i] = factor * (float32((1-r.weight)*upper) + float32(r.weight*lower))
			}
		}
	})
	return out
}

// warped returns for each place the value of the grid at the place where a flow leads; places outside of the grid use its edge.
// The flow is two channels of by, starting at from.
func (g grid) warped(by grid, from int) grid {
	out := g.like(g.rows, g.columns, g.c)
	right, bottom := float32(g.columns-1), float32(g.rows-1)
	out.eachRow(func(y int) {
		for x := range g.columns {
			move := by.values[(y*g.columns+x)*by.c+from:][:2]
			fx, fy := min(max(float32(x)+move[0], 0), right), min(max(float32(y)+move[1], 0), bottom)
			left, top := int(fx), int(fy)
			wx, wy := fx-float32(left), fy-float32(top)
			next, under := min(left+1, g.columns-1), min(top+1, g.rows-1)
			at := func(y, x int) []float32 { return g.values[(y*g.columns+x)*g.c:][:g.c] }
			a, b, c, d := at(top, left), at(top, next), at(under, left), at(under, next)
			wa, wb, wc, wd := (1-wx)*(1-wy), wx*(1-wy), (1-wx)*wy, wx*wy
			to := out.values[(y*g.columns+x)*g.c:][:g.c]
			for i := range to {
				to[i] = float32(a[i]*wa) + float32(b[i]*wb) + float32(c[i]*wc) + float32(d[i]*wd)
			}
		}
	})
	return out
}

// sigmoid returns 1 / (1 + e^-x).
func sigmoid(x float32) float32 { return float32(1 / (1 + math.Exp(-float64(x)))) }

package raft

import (
	"math"
	"runtime"
	"sync"

	"latentbeam/kernels"
)

// pyramid is how alike the places of one image are to those of another: of each place of the first the products with all places of the
// second, in full size, and of halves, quarters and eighths by the mean of four.
type pyramid struct {
	levels  [levels][]float32 // (H W, h, w)
	rows    [levels]int       // h
	columns [levels]int       // w
	width   int               // W
}

// compareBytes is how much of the full size a device computes at a time.
const compareBytes = 64 << 20

// compare makes the pyramid of two images.
func compare(be kernels.Backend, a, b *Image) (*pyramid, error) {
	p := &pyramid{width: a.Width / stride}
	rows, columns := b.Height/stride, b.Width/stride
	n, places := len(a.features)/featureWidth, rows*columns
	for i := range p.levels {
		p.rows[i], p.columns[i] = rows>>i, columns>>i
		p.levels[i] = make([]float32, n*p.rows[i]*p.columns[i])
	}
	scale := float32(1 / math.Sqrt(featureWidth)) // 1/16: exact, wherever it is applied
	chunk := max(1, compareBytes/4/places)
	err := func() error {
		defer be.Scope()()
		second := be.Alloc(kernels.F32, places, featureWidth)
		be.Upload(second, b.features)
		for from := 0; from < n; from += chunk {
			if err := compareSome(be, p.levels[0][from*places:min(n, from+chunk)*places], a.features[from*featureWidth:], second); err != nil {
				return err
			}
		}
		return nil
	}()
	if err != nil {
		return nil, err
	}
	each(n, func(place int) {
		full := p.levels[0][place*places:][:places]
		for i := range full {
			full[i] *= scale
		}
		for l := 1; l < levels; l++ {
			halve(p.of(l, place), p.of(l-1, place), p.rows[l], p.columns[l], p.columns[l-1])
		}
	})
	return p, nil
}

// compareSome writes products of the first features with all of second (N, 256).
func compareSome(be kernels.Backend, dst, features []float32, second kernels.Tensor) error {
	defer be.Scope()()
	n := len(dst) / second.Dim(0)
	first := be.Alloc(kernels.F32, n, featureWidth)
	be.Upload(first, features[:n*featureWidth])
	out := be.Alloc(kernels.F32, n, second.Dim(0))
	be.Linear(out, first, second, kernels.Epilogue{})
	return be.Download(dst, out)
}

// of returns a level of one place of the first image.
func (p *pyramid) of(level, place int) []float32 {
	n := p.rows[level] * p.columns[level]
	return p.levels[level][place*n:][:n]
}

// halve writes the means of squares of four; an odd row or column at the end is left out.
func halve(dst, src []float32, rows, columns, stride int) {
	for y := range rows {
		above, below := src[2*y*stride:], src[(2*y+1)*stride:]
		for x := range columns {
			dst[y*columns+x] = (above[2*x] + above[2*x+1] + below[2*x] + below[2*x+1]) / 4
		}
	}
}

// lookUp writes of each place the values of all levels around where the flow leads, (H W, 4, 9, 9): the first of the two axes goes along x,
// as the weights have learnt it. Between places values are interpolated, outside they are 0.
func (p *pyramid) lookUp(dst, flow []float32) {
	each(len(flow)/2, func(place int) {
		x0 := float32(place%p.width) + flow[2*place]
		y0 := float32(place/p.width) + flow[2*place+1]
		for l := range levels {
			shrink := 1 / float32(int(1)<<l)
			sample(dst[(place*levels+l)*lookups*lookups:][:lookups*lookups], p.of(l, place), p.rows[l], p.columns[l], x0*shrink, y0*shrink)
		}
	})
}

// sample writes the values around (x, y) of an image.
func sample(dst, image []float32, rows, columns int, x, y float32) {
	var at [lookups + 1][lookups + 1]float32 // by x, then y
	fx, fy := float32(math.Floor(float64(x))), float32(math.Floor(float64(y)))
	wx, wy := x-fx, y-fy
	const far = 1 << 20
	left, top := int(min(max(fx, -far), far))-radius, int(min(max(fy, -far), far))-radius
	for i := range at {
		if left+i < 0 || left+i >= columns {
			continue
		}
		for j := range at[i] {
			if top+j >= 0 && top+j < rows {
				at[i][j] = image[(top+j)*columns+left+i]
			}
		}
	}
	for i := range lookups {
		for j := range lookups {
			dst[i*lookups+j] = float32(float32((1-wx)*(1-wy))*at[i][j]) + float32(float32(wx*(1-wy))*at[i+1][j]) +
				float32(float32((1-wx)*wy)*at[i][j+1]) + float32(float32(wx*wy)*at[i+1][j+1])
		}
	}
}

// each calls do for 0 to n-1 on all processors.
func each(n int, do func(i int)) {
	var wait sync.WaitGroup
	ways := runtime.GOMAXPROCS(0)
	for w := range ways {
		wait.Go(func() {
			for i := n * w / ways; i < n*(w+1)/ways; i++ {
				do(i)
			}
		})
	}
	wait.Wait()
}

package flow

import (
	"math"
	"runtime"
	"sync"

	"latentbeam/kernels"
)

// Levels is the number of sizes in which a comparison is looked up. Each level has half the rows and columns of the level
// before.
const Levels = 4

// Features are the values of an image that are compared with another image's: C numbers for each place.
type Features struct {
	Rows, Columns, C int
	Values           []float32 // (Rows Columns, C)
}

// Correlation says how similar the places of one image are to the places of another. For each place of the first image it has
// the products with all places of the second, divided by the square root of C, in full size, and at 1/2, 1/4 and 1/8 as means
// of four.
type Correlation struct {
	levels  [Levels][]float32 // (H W, h, w)
	rows    [Levels]int       // h
	columns [Levels]int       // w
	width   int               // W
	radius  int
	memory  []float32 // memory of all levels
}

// spare holds the memory of released comparisons. The next ones usually have the same size.
var spare sync.Pool

// acquire returns n numbers with arbitrary values.
func acquire(n int) []float32 {
	if s, is := spare.Get().(*[]float32); is && cap(*s) >= n {
		return (*s)[:n]
	}
	return make([]float32, n)
}

// Release frees the memory. The comparison must not be used afterwards.
func (p *Correlation) Release() {
	spare.Put(&p.memory)
	p.levels = [Levels][]float32{}
}

// compareBytes is the part of the full size that a device computes at a time.
const compareBytes = 64 << 20

// Correlate compares the features of two images, for lookups within a radius. The caller must call Release.
func Correlate(be kernels.Backend, a, b Features, radius int) (*Correlation, error) {
	p := &Correlation{width: a.Columns, radius: radius}
	n, places := a.Rows*a.Columns, b.Rows*b.Columns
	p.memory = acquire(int(Bytes(b.Rows, b.Columns) / 4 / int64(places) * int64(n)))
	rest := p.memory
	for i := range p.levels {
		p.rows[i], p.columns[i] = b.Rows>>i, b.Columns>>i
		size := n * p.rows[i] * p.columns[i]
		p.levels[i], rest = rest[:size:size], rest[size:]
	}
	scale := float32(1 / math.Sqrt(float64(a.C)))
	chunk := max(1, compareBytes/4/places)
	err := func() error {
		defer be.Scope()()
		second := be.Alloc(kernels.F32, places, b.C)
		be.Upload(second, b.Values)
		for from := 0; from < n; from += chunk {
			some := min(chunk, n-from)
			if err := compareSome(be, p.levels[0][from*places:][:some*places], a.Values[from*a.C:][:some*a.C], some, second); err != nil {
				return err
			}
		}
		return nil
	}()
	if err != nil {
		return nil, err
	}
	Each(n, func(place int) {
		full := p.levels[0][place*places:][:places]
		for i := range full {
			full[i] *= scale
		}
		for l := 1; l < Levels; l++ {
			halve(p.levelAt(l, place), p.levelAt(l-1, place), p.rows[l], p.columns[l], p.columns[l-1])
		}
	})
	return p, nil
}

// Rehearse makes the device calls of Correlate for places with c features, on a device that computes nothing.
func Rehearse(be kernels.Backend, places, c int) {
	defer be.Scope()()
	second := be.Alloc(kernels.F32, places, c)
	chunk := max(1, compareBytes/4/places)
	for from := 0; from < places; from += chunk {
		_ = compareSome(be, nil, nil, min(chunk, places-from), second)
	}
}

// Bytes returns the memory of a Correlation of two images with this number of rows and columns of places. It grows with the
// square of the places.
func Bytes(rows, columns int) int64 {
	var perPlace int64
	for l := range Levels {
		perPlace += int64(rows>>l) * int64(columns>>l)
	}
	return int64(rows) * int64(columns) * perPlace * 4
}

// compareSome writes products of n features with all of second (N, C).
func compareSome(be kernels.Backend, dst, features []float32, n int, second kernels.Tensor) error {
	defer be.Scope()()
	first := be.Alloc(kernels.F32, n, second.Dim(1))
	be.Upload(first, features)
	out := be.Alloc(kernels.F32, n, second.Dim(0))
	be.Linear(out, first, second, kernels.Epilogue{})
	return be.Download(dst, out)
}

// levelAt returns a level for one place of the first image.
func (p *Correlation) levelAt(level, place int) []float32 {
	n := p.rows[level] * p.columns[level]
	return p.levels[level][place*n:][:n]
}

// halve writes the means of squares of four values. An odd row or column at the end is ignored.
func halve(dst, src []float32, rows, columns, stride int) {
	for y := range rows {
		above, below := src[2*y*stride:], src[(2*y+1)*stride:]
		for x := range columns {
			dst[y*columns+x] = (above[2*x] + above[2*x+1] + below[2*x] + below[2*x+1]) / 4
		}
	}
}

// LookupSize returns how many numbers LookUp writes for a place.
func LookupSize(radius int) int { return Levels * (2*radius + 1) * (2*radius + 1) }

// LookUp writes for each place of the first image the values of all levels around the place where a flow (H W, 2) leads: (H W,
// 4, 2 radius + 1, 2 radius + 1). The first of the two axes goes along x, as in the training of the weights. Values between
// places are interpolated, values outside are 0.
func (p *Correlation) LookUp(dst, flow []float32) {
	each := LookupSize(p.radius) / Levels
	Each(len(flow)/2, func(place int) {
		x0 := float32(place%p.width) + flow[2*place]
		y0 := float32(place/p.width) + flow[2*place+1]
		for l := range Levels {
			shrink := 1 / float32(int(1)<<l)
			p.sample(dst[(place*Levels+l)*each:][:each], l, place, x0*shrink, y0*shrink)
		}
	})
}

// maxLookups limits the number of places along an axis that are read around one place.
const maxLookups = 10

// sample writes the values of a level of one place around (x, y).
func (p *Correlation) sample(dst []float32, level, place int, x, y float32) {
	image, rows, columns, lookups := p.levelAt(level, place), p.rows[level], p.columns[level], 2*p.radius+1
	var at [maxLookups][maxLookups]float32 // by x, then y
	fx, fy := float32(math.Floor(float64(x))), float32(math.Floor(float64(y)))
	wx, wy := x-fx, y-fy
	const far = 1 << 20
	left, top := int(min(max(fx, -far), far))-p.radius, int(min(max(fy, -far), far))-p.radius
	for i := range lookups + 1 {
		if left+i < 0 || left+i >= columns {
			continue
		}
		for j := range lookups + 1 {
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

// Each calls do for 0 to n-1, concurrently on all processors.
func Each(n int, do func(i int)) {
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

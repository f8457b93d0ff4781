package amt

import (
	"context"
	"fmt"

	"latentbeam/kernels"
	"latentbeam/stages/flow"
)

// Takes reports whether frames of this size (pixels) are large enough.
func Takes(height, width int) bool {
	return min(flow.Padded(height, multiple), flow.Padded(width, multiple)) >= minSide
}

// Middle is a frame between two frames. It has their size, padded to multiples of 16.
type Middle struct {
	Rows, Columns int
	Padded        []float32    // (Rows, Columns, 3), from 0 to 1
	Flows         [2][]float32 // (Rows, Columns, 3 2): three flows from the middle to each frame, x and y in pixels
}

// Interpolate computes the frame in the middle between two frames rgb (height, width, 3).
func (m *AMT) Interpolate(ctx context.Context, be kernels.Backend, a, b []byte, height, width int) (*Middle, error) {
	if !Takes(height, width) {
		return nil, fmt.Errorf("frames of %dx%d pixels are too small for AMT, which needs %d of each side", width, height, minSide-multiple+1)
	}
	p := pair{}
	for i, rgb := range [][]byte{a, b} {
		p.images[i] = grid{flow.Padded(height, multiple), flow.Padded(width, multiple), channels, flow.Pad(rgb, height, width, multiple)}
	}
	defer func() {
		for _, release := range p.release {
			release()
		}
	}()
	p.centre()
	if err := p.run(ctx, be, m, p.lookUp); err != nil {
		return nil, err
	}
	return &Middle{p.between.rows, p.between.columns, p.between.values, [2][]float32{p.flows[0].values, p.flows[1].values}}, nil
}

// Cut returns the frame without padding: (height, width, 3).
func (m *Middle) Cut(height, width int) []float32 {
	top, left := (m.Rows-height)/2, (m.Columns-width)/2
	out := make([]float32, 0, height*width*channels)
	for y := range height {
		out = append(out, m.Padded[((y+top)*m.Columns+left)*channels:][:width*channels]...)
	}
	return out
}

// Rehearse makes the device calls of Interpolate for frames of this size, on a backend that computes nothing.
func (m *AMT) Rehearse(be kernels.Backend, height, width int) error {
	rows, columns := flow.Padded(height, multiple), flow.Padded(width, multiple)
	shape := grid{rows: rows, columns: columns, c: channels}
	p := pair{images: [2]grid{shape, shape}}
	return p.run(context.Background(), be, m, func(be kernels.Backend, _ [2]flow.Features) (func(ahead, back grid) grid, error) {
		for range 2 {
			flow.Rehearse(be, rows/stride*columns/stride, featureWidth)
		}
		return func(_, _ grid) grid { return grid{rows: rows / stride, columns: columns / stride, c: lookupWidth} }, nil
	})
}

// HostBytes estimates the host memory of Interpolate for frames of this size, besides the device's tensors. Most of it is
// comparisons, which grow with the square of the pixels.
func HostBytes(height, width int) int64 {
	rows, columns := flow.Padded(height, multiple), flow.Padded(width, multiple)
	const perPixel = 100 // numbers of all grids
	return 2*flow.Bytes(rows/stride, columns/stride) + int64(rows)*int64(columns)*perPixel*4
}

// pair holds two frames and the intermediate results between them.
type pair struct {
	images  [2]grid // with the common mean subtracted
	mean    float32
	flows   [2]grid // from the middle to the first and to the second frame
	between grid
	release []func() // functions that release comparisons
}

// centre scales the values to 0 to 1 and subtracts their mean.
func (p *pair) centre() {
	sum, n := 0.0, 0
	for _, g := range p.images {
		for i, v := range g.values {
			g.values[i] = v / 255
			sum += float64(g.values[i])
		}
		n += len(g.values)
	}
	p.mean = float32(sum / float64(n))
	for _, g := range p.images {
		for i := range g.values {
			g.values[i] -= p.mean
		}
	}
}

// lookUp compares features of the two images. It returns a function that looks comparisons up at the places where flows (h, w,
// 2) lead, and returns what it found (h, w, 392).
func (p *pair) lookUp(be kernels.Backend, of [2]flow.Features) (func(first, second grid) grid, error) {
	there, err := flow.Correlate(be, of[0], of[1], radius)
	if err != nil {
		return nil, err
	}
	p.release = append(p.release, there.Release)
	back, err := flow.Correlate(be, of[1], of[0], radius)
	if err != nil {
		return nil, err
	}
	p.release = append(p.release, back.Release)
	return func(first, second grid) grid {
		// The flow from the middle to one frame is half of the flow from the other frame to it.
		found := newGrid(first.rows, first.columns, lookupWidth/2)
		foundBack := newGrid(first.rows, first.columns, lookupWidth/2)
		there.LookUp(found.values, second.resized(1, 1, 2).values)
		back.LookUp(foundBack.values, first.resized(1, 1, 2).values)
		return concat(found, foundBack)
	}, nil
}

// run computes p.flows and p.between.
func (p *pair) run(ctx context.Context, be kernels.Backend, m *AMT,
	compare func(kernels.Backend, [2]flow.Features) (func(first, second grid) grid, error)) error {
	defer be.Scope()()
	rows, columns := p.images[0].rows, p.images[0].columns
	both := be.Alloc(kernels.F32, 2, rows, columns, channels)
	for i, g := range p.images {
		be.Upload(both.Narrow(0, i, 1), g.values)
	}
	of, err := m.features(be, both)
	if err != nil {
		return err
	}
	lookUp, err := compare(be, of)
	if err != nil {
		return err
	}
	levels, err := m.levels(be, both)
	if err != nil {
		return err
	}
	var ahead grid // features of the frame in the middle
	for i, d := range m.decoders {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		images := levels[len(levels)-1-i]
		out, err := p.decode(be, d, images, ahead, i == 0)
		if err != nil {
			return err
		}
		if i == len(m.updates) {
			return p.finish(be, m, out)
		}
		p.grow(out, 1, i == 0)
		ahead = out.part(4, out.c-4)
		if ahead, err = p.update(be, m.updates[i], ahead, 1<<i, lookUp); err != nil {
			return err
		}
	}
	return nil
}

// features returns the features of both images for the comparison.
func (m *AMT) features(be kernels.Backend, both kernels.Tensor) (of [2]flow.Features, err error) {
	defer be.Scope()()
	x := m.compared.forward(be, both)
	for i := range of {
		g, err := fetch(be, x.Narrow(0, i, 1))
		if err != nil {
			return of, err
		}
		of[i] = flow.Features{Rows: g.rows, Columns: g.columns, C: g.c, Values: g.values}
	}
	return of, nil
}

// levels returns the features of both images, from fine to coarse.
func (m *AMT) levels(be kernels.Backend, both kernels.Tensor) (out [4][2]grid, err error) {
	defer be.Scope()()
	for i, l := range m.pyramid {
		both = l[1].forward(be, l[0].forward(be, both, 2), 1)
		for k := range out[i] {
			if out[i][k], err = fetch(be, both.Narrow(0, k, 1)); err != nil {
				return out, err
			}
		}
	}
	return out, nil
}

// decode runs a decoder on the current features, the images' features at the places where the flows lead, and the flows.
func (p *pair) decode(be kernels.Backend, d decoder, images [2]grid, ahead grid, first bool) (grid, error) {
	defer be.Scope()()
	var in grid
	if first {
		middle := images[0].like(images[0].rows, images[0].columns, 1)
		for i := range middle.values {
			middle.values[i] = 0.5
		}
		in = concat(images[0], images[1], middle)
	} else {
		in = concat(ahead, images[0].warped(p.flows[0], 0), images[1].warped(p.flows[1], 0), p.flows[0], p.flows[1])
	}
	return fetch(be, d.forward(be, in.upload(be)))
}

// grow computes flows of twice the size from a decoder's output: n pairs each.
func (p *pair) grow(out grid, n int, first bool) {
	for i := range p.flows {
		change := out.part(2*n*i, 2*n)
		if !first {
			larger := p.flows[i].resized(2, 1, 2)
			all := make([]grid, n)
			for k := range all {
				all[k] = larger
			}
			change = change.plus(concat(all...))
		}
		p.flows[i] = change
	}
}

// update refines the flows and returns refined features. times is the size of the flows relative to the size of the
// comparisons.
func (p *pair) update(be kernels.Backend, u update, features grid, times int, lookUp func(first, second grid) grid) (grid, error) {
	defer be.Scope()()
	first, second, small := p.flows[0], p.flows[1], features
	if times > 1 {
		first, second = first.resized(1, times, 1/float32(times)), second.resized(1, times, 1/float32(times))
		small = small.resized(1, times, 1)
	}
	ofFeatures, ofFlows := u.forward(be, small.upload(be), concat(first, second).upload(be), lookUp(first, second).upload(be))
	change, err := fetch(be, ofFeatures)
	if err != nil {
		return grid{}, err
	}
	moved, err := fetch(be, ofFlows)
	if err != nil {
		return grid{}, err
	}
	if times > 1 {
		change, moved = change.resized(times, 1, 1), moved.resized(times, 1, float32(times))
	}
	for i := range p.flows {
		p.flows[i] = p.flows[i].plus(moved.part(2*i, 2))
	}
	return features.plus(change), nil
}

// finish combines the two images, moved by three pairs of flows in full size.
func (p *pair) finish(be kernels.Backend, m *AMT, out grid) error {
	p.grow(out, flows, false)
	var warps [2][flows]grid
	for k := range flows {
		for i := range warps {
			warps[i][k] = p.images[i].warped(p.flows[i], 2*k)
		}
	}
	tries := out.like(out.rows, out.columns, channels*flows)
	tries.eachRow(func(y int) {
		for at := y * out.columns; at < (y+1)*out.columns; at++ {
			from, to := out.values[at*out.c:][:out.c], tries.values[at*tries.c:][:tries.c]
			for k := range flows {
				share := sigmoid(from[4*flows+k])
				for c := range channels {
					a, b := warps[0][k].values[at*channels+c], warps[1][k].values[at*channels+c]
					to[channels*k+c] = float32(share*a) + float32((1-share)*b) + p.mean + from[5*flows+channels*k+c]
				}
			}
		}
	})
	p.between = out.like(out.rows, out.columns, channels)
	defer be.Scope()()
	added, err := fetch(be, m.combined.Forward(be, m.combine.forward(be, tries.upload(be), 1)))
	if err != nil {
		return err
	}
	p.between.eachRow(func(y int) {
		for at := y * out.columns; at < (y+1)*out.columns; at++ {
			from := tries.values[at*tries.c:][:tries.c]
			for c := range channels {
				mean := (from[c] + from[channels+c] + from[2*channels+c]) / flows
				i := at*channels + c
				p.between.values[i] = min(max(mean+added.values[i], 0), 1)
			}
		}
	})
	return nil
}

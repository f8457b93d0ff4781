package nn_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"latentbeam/internal/cluster"
	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/kernels/kerneltest"
	"latentbeam/stages/nn"
	"latentbeam/stages/nn/nntest"
	"latentbeam/stages/sequence"
	"latentbeam/stages/weights"
)

// fullCase is attention over all tokens of the videos of a batch, on any number of ranks.
type fullCase struct {
	batch, frames, rows, cols, heads int
	angles                           [3]int // of frames, rows and columns; a head has twice as many channels
	rope, halves, qkNorm             bool
	valid                            [][3]int // of each row, nil: all
	dt                               kernels.DType
	tile                             int

	partition sequence.Partition
	speeds    []float64 // nil: alone
	threads   int
	late      bool
	other     bool // the plan is one for attention inside frames

	wrapTransport func(kernels.Transport) kernels.Transport // a mistake that a test puts in
}

func (c fullCase) String() string {
	return fmt.Sprintf("B%d %dx%dx%d H%d angles %v, rope %v, halves %v, norm %v, valid %v, %v, tile %d: %v over %v",
		c.batch, c.frames, c.rows, c.cols, c.heads, c.angles, c.rope, c.halves, c.qkNorm, c.valid, c.dt, c.tile, c.partition,
		c.speeds)
}

func (c fullCase) head() int  { return 2 * (c.angles[0] + c.angles[1] + c.angles[2]) }
func (c fullCase) width() int { return c.heads * c.head() }
func (c fullCase) area() int  { return c.rows * c.cols }

func (c fullCase) values(name string) []float32 {
	return nntest.Hash(name, 1.3, c.batch, c.frames, c.area(), c.width())
}

func (c fullCase) axes() [3][][]float64 {
	return [3][][]float64{nn.RopeAngles(c.frames, c.angles[0], 1), nn.RopeAngles(c.rows, c.angles[1], 1.5),
		nn.RopeAngles(c.cols, c.angles[2], 2)}
}

func (c fullCase) masks(t testing.TB) (out []sequence.Mask) {
	for _, v := range c.valid {
		m, err := sequence.NewMask([3]int{c.frames, c.rows, c.cols}, v)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, m)
	}
	return out
}

// add runs the layer on some parts, with a nil split on all.
func (c fullCase) add(t testing.TB, be kernels.Backend, s *nn.Split, streams, xs, gates []kernels.Tensor) error {
	names := weights.ShapesOnly()
	nn.LoadSelfAttention(names, c.width(), c.heads, c.qkNorm)
	a := nn.LoadSelfAttention(weights.NewWeights(be, nntest.File(t, names.Requested())).As(c.dt), c.width(), c.heads, c.qkNorm)
	var rope nn.Rope
	if c.rope {
		axes := c.axes()
		rope = nn.NewVideoRope(be, c.dt, axes[0], axes[1], axes[2])
		if c.halves {
			rope = rope.Halves(c.angles[:]...)
		}
	}
	return a.AddFull(be, s, c.dt, streams, xs, gates, rope, c.masks(t))
}

func (c fullCase) backend() kernels.Backend {
	be := kernels.Backend(cpu.New(max(1, c.threads)))
	if c.late {
		be = kerneltest.Deferred(be)
	}
	return be
}

func (c fullCase) alone(t testing.TB) []float32 {
	t.Helper()
	be := c.backend()
	defer be.Scope()()
	var all [3]kernels.Tensor
	for i, name := range []string{"stream", "x", "gate"} {
		all[i] = upload(be, c.dt, c.values(name), c.batch, c.frames, c.area(), c.width())
	}
	if err := c.add(t, be, nil, all[:1], all[1:2], all[2:]); err != nil {
		t.Fatal(err)
	}
	return nntest.Values(t, be, all[0])
}

// shared computes the case on its ranks and puts the columns together.
func (c fullCase) shared(t testing.TB) ([]float32, error) {
	t.Helper()
	old := sharedCase{dt: c.dt, shape: sequence.Shape{Batch: c.batch, Frames: c.frames, Positions: c.area(), Heads: c.heads,
		HeadSize: c.head(), QueryTile: c.tile, Full: !c.other}}
	plan, err := sequence.New(old.shape, c.partition, c.speeds)
	if err != nil {
		t.Fatal(err)
	}
	ends := cluster.Shared(plan.Ranks)
	for i := range ends {
		if c.wrapTransport != nil {
			ends[i] = c.wrapTransport(ends[i])
		}
	}
	result := make([]float32, len(c.values("x")))
	err = kernels.RunRanks(t.Context(), ends, time.Second, func(ctx context.Context, rank int, tr kernels.Transport) error {
		be := c.backend()
		defer be.Scope()()
		g := kernels.NewGroup(ctx, tr, be, time.Minute)
		g.Follow(plan.Hash)
		split := nn.NewSplit(plan, g)
		split.Padding = float32(math.NaN())
		var all [3][]kernels.Tensor
		for i, name := range []string{"stream", "x", "gate"} {
			for _, p := range split.Parts() {
				all[i] = append(all[i], old.part(be, split, p, c.values(name)))
			}
		}
		if err := c.add(t, be, split, all[0], all[1], all[2]); err != nil {
			return err
		}
		if sent, want := g.Traffic().Bytes, plan.Sent()[rank].Total()*int64(c.dt.Size()); !c.other && sent != want {
			t.Errorf("%v: rank %d sent %d bytes, the plan says %d", c, rank, sent, want)
		}
		for i, p := range split.Parts() {
			got := nntest.Values(t, be, all[0][i])
			old.eachToken(p, func(global, local int) {
				copy(result[global*c.width():][:c.width()], got[local*c.width():])
			})
		}
		return nil
	})
	return result, err
}

func (c fullCase) check(t *testing.T, want []float32) {
	t.Helper()
	got, err := c.shared(t)
	if err != nil {
		t.Fatalf("%v: %v", c, err)
	}
	if n := differences(got, want); n > 0 {
		t.Errorf("%v: %d of %d values differ from one rank's", c, n, len(want))
	}
}

// TestFull: on any number of ranks the layer gives the bits of one rank. The cases have more ranks than heads, positions and
// masks or none, odd sizes, several numbers of threads, and a Deferred device.
func TestFull(t *testing.T) {
	for i, c := range []fullCase{
		{batch: 1, frames: 5, rows: 3, cols: 5, heads: 4, angles: [3]int{2, 1, 1}, rope: true, tile: 1},
		{batch: 2, frames: 3, rows: 4, cols: 3, heads: 3, angles: [3]int{1, 1, 1}, rope: true, halves: true, qkNorm: true,
			tile: 4, valid: [][3]int{{2, 4, 2}, {3, 3, 3}}},
		{batch: 3, frames: 4, rows: 1, cols: 7, heads: 1, angles: [3]int{1, 0, 1}, tile: 1, valid: [][3]int{{4, 1, 7}, {0, 1, 7},
			{1, 1, 1}}},
		{batch: 2, frames: 1, rows: 6, cols: 6, heads: 12, angles: [3]int{1, 2, 2}, rope: true, qkNorm: true, tile: 0},
		{batch: 1, frames: 9, rows: 2, cols: 11, heads: 2, angles: [3]int{3, 2, 2}, rope: true, tile: 64, dt: kernels.BF16},
		{batch: 1, frames: 2, rows: 13, cols: 10, heads: 5, angles: [3]int{2, 2, 2}, rope: true, halves: true, tile: 64,
			dt: kernels.BF16, valid: [][3]int{{2, 9, 7}}},
	} {
		want := c.alone(t)
		for _, c.threads = range []int{2, 8} {
			c.late = c.threads == 8
			if n := differences(c.alone(t), want); n > 0 {
				t.Errorf("%v: %d values differ on %d threads", c, n, c.threads)
			}
		}
		for _, ranks := range []int{1, 2, 3, 5, 8, 9} {
			for _, c.partition = range []sequence.Partition{sequence.Uneven, sequence.Pad} {
				c.speeds, c.threads, c.late = sequence.Equal(ranks), 1+ranks%2, (i+ranks)%3 == 0
				c.check(t, want)
			}
		}
		c.speeds, c.partition = []float64{1, 0.2, 3}, sequence.Uneven
		c.check(t, want)
	}
}

// TestFullRandom is the same for random cases.
func TestFullRandom(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 12))
	for range 300 {
		c := fullCase{batch: 1 + rng.IntN(3), frames: 1 + rng.IntN(6), rows: 1 + rng.IntN(5), cols: 1 + rng.IntN(5),
			heads: 1 + rng.IntN(7), angles: [3]int{rng.IntN(3), 1 + rng.IntN(2), rng.IntN(2)}, rope: rng.IntN(4) > 0,
			halves: rng.IntN(2) == 0, qkNorm: rng.IntN(2) == 0, dt: kernels.DType(rng.IntN(2)), tile: rng.IntN(5)}
		if rng.IntN(2) == 0 {
			for range c.batch {
				c.valid = append(c.valid, [3]int{rng.IntN(c.frames + 1), rng.IntN(c.rows + 1), rng.IntN(c.cols + 1)})
			}
		}
		want := c.alone(t)
		for range 2 {
			c.speeds = nil
			for range 1 + rng.IntN(9) {
				c.speeds = append(c.speeds, 0.2+rng.Float64())
			}
			c.partition, c.late, c.other = sequence.Partition(rng.IntN(2)), rng.IntN(4) == 0, rng.IntN(3) == 0
			c.check(t, want)
		}
	}
}

// TestFullOracle compares with the layer computed in float64 from its definition.
func TestFullOracle(t *testing.T) {
	for _, halves := range []bool{false, true} {
		for _, qkNorm := range []bool{false, true} {
			for _, valid := range [][][3]int{nil, {{2, 3, 2}, {3, 2, 4}}} {
				c := fullCase{batch: 2, frames: 3, rows: 3, cols: 4, heads: 3, angles: [3]int{2, 1, 3}, rope: true, halves: halves,
					qkNorm: qkNorm, valid: valid, tile: 1, speeds: sequence.Equal(5)}
				got, err := c.shared(t)
				if err != nil {
					t.Fatal(err)
				}
				if d := largest(got, c.oracle(t)); d > 1e-5 {
					t.Errorf("%v: differs by %g", c, d)
				}
				for name, other := range map[string]func(o *fullCase){
					"other pairs":  func(o *fullCase) { o.halves = !halves },
					"no positions": func(o *fullCase) { o.rope = false },
					"other mask":   func(o *fullCase) { o.valid = [][3]int{{1, 3, 2}, {3, 2, 4}} },
				} {
					o := c
					other(&o)
					if d := largest(got, o.oracle(t)); d < 1e-4 {
						t.Errorf("%v: %s differ by %g only: the test sees nothing", c, name, d)
					}
				}
			}
		}
	}
}

// oracle is the layer in float64.
func (c fullCase) oracle(t *testing.T) (out []float64) {
	width, head, tokens := c.width(), c.head(), c.frames*c.area()
	wq, bq := nntest.Weight("qkv.weight", 3*width, width), nntest.Weight("qkv.bias", 3*width)
	wp, bp := nntest.Weight("proj.weight", width, width), nntest.Weight("proj.bias", width)
	norms := [2][]float32{nntest.Weight("q_norm.weight", head), nntest.Weight("k_norm.weight", head)}
	linear := func(w, b []float32, x []float64) []float64 {
		y := make([]float64, len(b))
		for o := range y {
			y[o] = float64(b[o])
			for i, v := range x {
				y[o] += v * float64(w[o*len(x)+i])
			}
		}
		return y
	}
	x, stream, gate := c.values("x"), c.values("stream"), c.values("gate")
	for row := range c.batch {
		qkv, keys := make([][]float64, tokens), []int(nil)
		for i := range tokens {
			in := make([]float64, width)
			for j := range in {
				in[j] = float64(x[(row*tokens+i)*width+j])
			}
			qkv[i] = linear(wq, bq, in)
			for h := range 2 * c.heads { // queries, then keys
				v := qkv[i][h*head:][:head]
				if c.qkNorm {
					normOracle(v, norms[h/c.heads])
				}
				c.turn(v, i)
			}
			if c.valid == nil || i/c.area() < c.valid[row][0] && i/c.cols%c.rows < c.valid[row][1] && i%c.cols < c.valid[row][2] {
				keys = append(keys, i)
			}
		}
		for i := range tokens {
			result := make([]float64, width)
			for h := range c.heads {
				attendOracle(result[h*head:][:head], qkv, i, keys, h*head, width)
			}
			for j, v := range linear(wp, bp, result) {
				at := (row*tokens+i)*width + j
				out = append(out, float64(stream[at])+float64(gate[at])*v)
			}
		}
	}
	return out
}

func normOracle(v []float64, weight []float32) {
	sum := 0.0
	for _, x := range v {
		sum += x * x
	}
	for i := range v {
		v[i] *= float64(weight[i]) / math.Sqrt(sum/float64(len(v))+nn.QKNormEps)
	}
}

// turn gives the channels of a head the position of a token.
func (c fullCase) turn(v []float64, token int) {
	if !c.rope {
		return
	}
	axes, at := c.axes(), 0
	for axis, i := range []int{token / c.area(), token / c.cols % c.rows, token % c.cols} {
		n := c.angles[axis]
		for j, angle := range axes[axis][i] {
			a, b := at+2*j, at+2*j+1
			if c.halves {
				a, b = at+j, at+n+j
			}
			sin, cos := math.Sincos(angle)
			v[a], v[b] = v[a]*cos-v[b]*sin, v[b]*cos+v[a]*sin
		}
		at += 2 * n
	}
}

// TestFullMutants adds mistakes to the exchange and checks that the comparison finds each of them.
func TestFullMutants(t *testing.T) {
	c := fullCase{batch: 1, frames: 5, rows: 3, cols: 5, heads: 3, angles: [3]int{2, 1, 1}, rope: true, tile: 1}
	want := c.alone(t)
	c.speeds = sequence.Equal(2)
	c.check(t, want)
	c.wrapTransport = func(tr kernels.Transport) kernels.Transport { return lost{tr} }
	if got, err := c.shared(t); err == nil && differences(got, want) == 0 {
		t.Error("parts that come to another place are not seen")
	}
}

// lost is a transport with a mistake: it swaps two parts of an exchange that have the same shape.
type lost struct{ kernels.Transport }

func (l lost) Exchange(ctx context.Context, be kernels.Backend, tag kernels.Tag, send, recv []kernels.Part) error {
	for i := range send {
		for j := range i {
			if send[i].Peer == send[j].Peer && slices.Equal(send[i].View.Shape, send[j].View.Shape) {
				send[i].View, send[j].View = send[j].View, send[i].View
				return l.Transport.Exchange(ctx, be, tag, send, recv)
			}
		}
	}
	return l.Transport.Exchange(ctx, be, tag, send, recv)
}

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

// sharedCase is attention over the patches of the frames of a batch, on several ranks.
type sharedCase struct {
	shape     sequence.Shape
	partition sequence.Partition
	speeds    []float64
	dt        kernels.DType
	qkNorm    bool
	rope      bool
	valid     []int // keys of each row, nil: all
	// mask is of a grid whose valid tokens are the positions of one frame, nil: none; the oracle leaves out the keys
	// that are hidden.
	mask    *sequence.Mask
	hidden  func(token int) bool
	threads int
	late    bool

	// Mistakes that a test puts in on purpose; see TestMutants.
	wrapBackend   func(kernels.Backend) kernels.Backend
	wrapTransport func(kernels.Transport) kernels.Transport
	wrapRope      func(s *nn.Split, rope nn.Rope) nn.Rope
}

func (c sharedCase) String() string {
	return fmt.Sprintf("B%d T%d S%d H%d D%d tile %d, %v over %v, %v", c.shape.Batch, c.shape.Frames,
		c.shape.Positions, c.shape.Heads, c.shape.HeadSize, c.shape.QueryTile, c.partition, c.speeds, c.dt)
}

// values are hashed numbers of a shape (B, T, S, C).
func (c sharedCase) values(name string) []float32 {
	s := c.shape
	if c.mask != nil {
		return c.gathered(name)
	}
	return nntest.Hash(name, 1.3, s.Batch, s.Frames, s.Positions, s.Width())
}

func (c sharedCase) backend() kernels.Backend {
	var be kernels.Backend = cpu.New(max(1, c.threads))
	if c.late {
		be = kerneltest.Deferred(be)
	}
	if c.wrapBackend != nil {
		be = c.wrapBackend(be)
	}
	return be
}

// layer is the attention with hashed weights, and the angles of its patches.
func (c sharedCase) layer(t testing.TB, be kernels.Backend) (nn.SelfAttention, nn.Rope) {
	width := c.shape.Width()
	names := weights.ShapesOnly()
	nn.LoadSelfAttention(names, width, c.shape.Heads, c.qkNorm)
	w := weights.NewWeights(be, nntest.File(t, names.Requested())).As(c.dt)
	a := nn.LoadSelfAttention(w, width, c.shape.Heads, c.qkNorm)
	if !c.rope {
		return a, nn.Rope{}
	}
	at := nn.RopePositions(c.dt, nn.Span{Len: c.shape.Positions}, 1)
	return a, nn.NewRope(be, c.dt, nn.RopeFreqs(c.shape.HeadSize/2), at).Reshape(1, 1, c.shape.Positions)
}

// alone computes the case on one rank, row by row if rows have different numbers of valid keys.
func (c sharedCase) alone(t testing.TB) []float32 {
	be := cpu.New(1)
	a, rope := c.layer(t, be)
	s := c.shape
	stream := upload(be, c.dt, c.values("stream"), s.Batch, s.Frames, s.Positions, s.Width())
	x := upload(be, c.dt, c.values("x"), stream.Shape...)
	gate := upload(be, c.dt, c.values("gate"), stream.Shape...)
	a.AddSpatial(be, stream, x, gate, rope)
	return nntest.Values(t, be, stream)
}

func upload(be kernels.Backend, dt kernels.DType, values []float32, shape ...int) kernels.Tensor {
	x := be.Alloc(dt, shape...)
	be.Upload(x, values)
	return x
}

// shared computes the case on the ranks of its plan and puts the columns together. sent is what each rank
// sent.
func (c sharedCase) shared(t testing.TB) (result []float32, sent []kernels.Traffic) {
	t.Helper()
	plan, err := sequence.New(c.shape, c.partition, c.speeds)
	if err != nil {
		t.Fatal(err)
	}
	s := c.shape
	result = make([]float32, len(c.values("x")))
	sent = make([]kernels.Traffic, plan.Ranks)
	ends := cluster.Shared(plan.Ranks)
	if c.wrapTransport != nil {
		for i := range ends {
			ends[i] = c.wrapTransport(ends[i])
		}
	}
	run := func(ctx context.Context, rank int, tr kernels.Transport) error {
		be := c.backend()
		defer be.Scope()()
		g := kernels.NewGroup(ctx, tr, be, time.Minute)
		g.Follow(plan.Hash)
		split := nn.NewSplit(plan, g)
		split.Valid, split.Padding = c.valid, float32(math.NaN())
		a, rope := c.layer(t, be)
		if c.wrapRope != nil {
			rope = c.wrapRope(split, rope)
		}
		var streams, xs, gates []kernels.Tensor
		for _, p := range split.Parts() {
			streams = append(streams, c.part(be, split, p, c.values("stream")))
			xs = append(xs, c.part(be, split, p, c.values("x")))
			gates = append(gates, c.part(be, split, p, c.values("gate")))
		}
		if err := a.AddShared(be, split, c.dt, streams, xs, gates, rope); err != nil {
			return err
		}
		for i, p := range split.Parts() {
			got := make([]float32, streams[i].Len())
			if err := be.Download(got, streams[i]); err != nil {
				return err
			}
			c.eachToken(p, func(global, local int) {
				copy(result[global*s.Width():][:s.Width()], got[local*s.Width():])
			})
		}
		sent[rank] = g.Traffic()
		return nil
	}
	if err := kernels.RunRanks(t.Context(), ends, time.Second, run); err != nil {
		t.Fatalf("%v: %v", c, err)
	}
	return result, sent
}

// part cuts a part out of values (B, T, S, C); values outside of the frame are padding.
func (c sharedCase) part(be kernels.Backend, split *nn.Split, p nn.Part, values []float32) kernels.Tensor {
	width := c.shape.Width()
	x := be.Alloc(c.dt, p.Rows.Len, c.shape.Frames, p.Patches.Len, width)
	cut := slices.Repeat([]float32{split.Padding}, x.Len())
	c.eachToken(p, func(global, local int) { copy(cut[local*width:][:width], values[global*width:]) })
	be.Upload(x, cut)
	return x
}

// eachToken pairs the tokens of a part with those of the batch.
func (c sharedCase) eachToken(p nn.Part, f func(global, local int)) {
	s := c.shape
	for b := range p.Rows.Len {
		for t := range s.Frames {
			for i := range p.Patches.Len {
				if at := p.Patches.Start + i; at < s.Positions {
					f(((p.Rows.Start+b)*s.Frames+t)*s.Positions+at, (b*s.Frames+t)*p.Patches.Len+i)
				}
			}
		}
	}
}

// check compares with one rank, bit for bit.
func (c sharedCase) check(t *testing.T) {
	t.Helper()
	want := c.alone(t)
	got, _ := c.shared(t)
	if n := differences(got, want); n > 0 {
		t.Errorf("%v: %d of %d values differ from one rank's", c, n, len(want))
	}
}

func differences(a, b []float32) (n int) {
	for i := range a {
		if math.Float32bits(a[i]) != math.Float32bits(b[i]) {
			n++
		}
	}
	return n
}

// TestAddShared: every shape, number of ranks, partition and split of the queries gives the bits of one rank.
func TestAddShared(t *testing.T) {
	for _, s := range []sequence.Shape{
		{Batch: 2, Frames: 16, Positions: 12, Heads: 4, HeadSize: 4, QueryTile: 1},
		{Batch: 1, Frames: 5, Positions: 31, Heads: 3, HeadSize: 8, QueryTile: 4},
		{Batch: 3, Frames: 2, Positions: 7, Heads: 14, HeadSize: 2, QueryTile: 0},
		{Batch: 1, Frames: 1, Positions: 37, Heads: 5, HeadSize: 6, QueryTile: 16},  // an image
		{Batch: 2, Frames: 1, Positions: 48, Heads: 24, HeadSize: 2, QueryTile: 16}, // attention in 3D
		{Batch: 1, Frames: 3, Positions: 1, Heads: 1, HeadSize: 4, QueryTile: 1},
	} {
		for ranks := 1; ranks <= 9; ranks++ {
			for _, p := range []sequence.Partition{sequence.Uneven, sequence.Pad} {
				sharedCase{shape: s, partition: p, speeds: sequence.Equal(ranks), qkNorm: ranks%2 == 0,
					rope: s.HeadSize%2 == 0 && ranks%3 == 0, threads: 1 + ranks%2}.check(t)
			}
		}
	}
}

// TestAddSharedRandom: the same for random cases, also in bf16, with ranks of different speeds and on a Deferred device.
func TestAddSharedRandom(t *testing.T) {
	rng := rand.New(rand.NewPCG(16, 3))
	cases := 2000
	if testing.Short() {
		cases = 500
	}
	for range cases {
		c := sharedCase{
			shape: sequence.Shape{Batch: 1 + rng.IntN(4), Frames: 1 + rng.IntN(9), Positions: 1 + rng.IntN(40),
				Heads: 1 + rng.IntN(9), HeadSize: 2 * (1 + rng.IntN(4)), QueryTile: rng.IntN(5)},
			partition: sequence.Partition(rng.IntN(2)),
			dt:        kernels.DType(rng.IntN(2)), qkNorm: rng.IntN(2) == 0, rope: rng.IntN(2) == 0,
			late: rng.IntN(4) == 0,
		}
		for range 1 + rng.IntN(9) {
			c.speeds = append(c.speeds, 0.2+rng.Float64())
		}
		c.check(t)
	}
}

// TestSharedTraffic: ranks send as many bytes as the plan says.
func TestSharedTraffic(t *testing.T) {
	for ranks := 1; ranks <= 8; ranks++ {
		shape := sequence.Shape{Batch: 2, Frames: 8, Positions: 15, Heads: 4, HeadSize: 4, QueryTile: 1}
		c := sharedCase{shape: shape, speeds: sequence.Equal(ranks)}
		plan, err := sequence.New(c.shape, c.partition, c.speeds)
		if err != nil {
			t.Fatal(err)
		}
		_, sent := c.shared(t)
		for r, got := range sent {
			if want := 4 * plan.Sent()[r].Total(); got.Bytes != want {
				t.Errorf("%d ranks: rank %d sent %d bytes, want %d", ranks, r, got.Bytes, want)
			}
			if !plan.Moves() && got.Exchanges != 0 {
				t.Errorf("%d ranks: %d exchanges of nothing", ranks, got.Exchanges)
			}
		}
	}
}

// TestSharedOracle compares with attention computed in float64 from its definition, because all ranks could have the same
// wrong result. Rows have different numbers of valid keys.
func TestSharedOracle(t *testing.T) {
	for _, ranks := range []int{1, 3, 5} {
		for _, valid := range [][]int{nil, {17, 9, 1}} {
			c := sharedCase{
				shape:  sequence.Shape{Batch: 3, Frames: 4, Positions: 17, Heads: 3, HeadSize: 4, QueryTile: 1},
				speeds: sequence.Equal(ranks), valid: valid,
			}
			got, _ := c.shared(t)
			want := c.oracle(t)
			worst := 0.0
			for i := range want {
				worst = max(worst, math.Abs(float64(got[i])-want[i]))
			}
			if worst > 1e-5 {
				t.Errorf("%d ranks, valid keys %v: differs by %g", ranks, valid, worst)
			}
		}
	}
}

// oracle is stream + gate * (proj(softmax(q k / sqrt(d)) v)), by its definition.
func (c sharedCase) oracle(t *testing.T) []float64 {
	s, width := c.shape, c.shape.Width()
	weight := func(name string, shape ...int) []float32 { return nntest.Weight(name, shape...) }
	wq, bq := weight("qkv.weight", 3*width, width), weight("qkv.bias", 3*width)
	wp, bp := weight("proj.weight", width, width), weight("proj.bias", width)
	linear := func(w, b []float32, x []float64) []float64 {
		out := make([]float64, len(b))
		for o := range out {
			out[o] = float64(b[o])
			for i, v := range x {
				out[o] += v * float64(w[o*len(x)+i])
			}
		}
		return out
	}
	x, stream, gate := c.values("x"), c.values("stream"), c.values("gate")
	out := make([]float64, len(x))
	for f := range s.Batch * s.Frames {
		var keys []int // positions
		for i := range s.Positions {
			if c.valid != nil && i >= c.valid[f/s.Frames] || c.hidden != nil && c.hidden(i) {
				continue
			}
			keys = append(keys, i)
		}
		var qkv [][]float64
		for i := range s.Positions {
			var row []float64
			for _, v := range x[(f*s.Positions+i)*width:][:width] {
				row = append(row, float64(v))
			}
			qkv = append(qkv, linear(wq, bq, row))
		}
		for i := range s.Positions {
			result := make([]float64, width)
			for h := range s.Heads {
				attendOracle(result[h*s.HeadSize:][:s.HeadSize], qkv, i, keys, h*s.HeadSize, width)
			}
			for j, v := range linear(wp, bp, result) {
				at := (f*s.Positions+i)*width + j
				out[at] = float64(stream[at]) + float64(gate[at])*v
			}
		}
	}
	return out
}

// attendOracle is one query of one head, whose channels begin at head, over some keys.
func attendOracle(out []float64, qkv [][]float64, query int, keys []int, head, width int) {
	scores, sum := make([]float64, len(keys)), 0.0
	for k, key := range keys {
		for e := range out {
			scores[k] += qkv[query][head+e] * qkv[key][width+head+e]
		}
		scores[k] = math.Exp(scores[k] / math.Sqrt(float64(len(out))))
		sum += scores[k]
	}
	for k, p := range scores {
		for e := range out {
			out[e] += p / sum * qkv[keys[k]][2*width+head+e]
		}
	}
}

package layout

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"latentbeam/stages/cost"
	"latentbeam/stages/sequence"
)

// xxl sets the weights of the first stage to T5-xxl in 16 bit: the bytes that belong to no layer, then 24 equal layers.
func xxl(stages []cost.Estimate) []cost.Estimate {
	stages[0].Parts = []int64{263_200_768}
	for range 24 {
		stages[0].Parts = append(stages[0].Parts, 385_892_352)
	}
	stages[0].Weights, stages[0].Rounds = sum(stages[0].Parts), 1
	return stages
}

// TestArrangeT5: devices that cannot hold T5-xxl either split its layers among them, so that the fullest device holds as little
// as possible, or each device streams all layers. Arrange takes the faster way.
func TestArrangeT5(t *testing.T) {
	stages := xxl(stdit3(16, 1024, 2))[:1]
	for _, c := range []struct {
		spec     string
		elements int
		runs     []int // layers on each device of a pipeline
		fullest  int64 // bytes on the fullest device; 0: not checked
		stay     int   // at least so many layers are resident when the others are streamed; 0: nothing is streamed
	}{
		{"4xT4-16GB", 10, nil, stages[0].Weights, 0}, // fits
		{"4xT4-8GB", 4, []int{6, 6, 6, 6}, 263_200_768 + 6*385_892_352, 0},
		{"2xT4-8GB", 1, []int{12, 12}, 263_200_768 + 12*385_892_352, 0},
		{"1xT4-8GB", 10, nil, 0, 14},
		{"2xT4-4GB", 10, nil, 0, 4}, // together too small for all
		{"4xT4-8GB+4xT4-16GB", 4, []int{3, 3, 3, 3, 3, 3, 3, 3}, 263_200_768 + 3*385_892_352, 0},
	} {
		held, over := Arrange(stages, devices(t, c.spec), c.elements)
		h := held[0]
		var runs []int
		for _, r := range h.Runs {
			runs = append(runs, r.Len())
		}
		if !slices.Equal(runs, c.runs) || h.Streamed != (c.stay > 0) || h.Stay < c.stay || over != 0 ||
			c.fullest > 0 && h.Bytes != c.fullest || h.Streamed && h.Bytes > devices(t, c.spec)[0].room() {
			t.Errorf("%s: got %+v and %d bytes too many, want runs of %v layers, or at least %d resident layers", c.spec, h, over,
				c.runs, c.stay)
		}
		if len(c.runs) > 0 != (h.Grid.Pipeline > 1) || len(c.runs) > 0 && !strings.Contains(h.String(), "blocks split over") {
			t.Errorf("%s: got grid %v and text %q, want a pipeline: %v", c.spec, h.Grid, h, len(c.runs) > 0)
		}
	}
}

// TestArrangeBesideOthers: a device holds the weights of all stages at once. If they do not fit, the largest stage is streamed
// first, and only as many of its blocks as necessary.
func TestArrangeBesideOthers(t *testing.T) {
	stages := xxl(stdit3(16, 1024, 2))
	stages[1].Parts, stages[1].Rounds = []int64{100e6}, 30
	for range 28 {
		stages[1].Parts = append(stages[1].Parts, 82_785_714)
	}
	for _, c := range []struct {
		spec     string
		streamed []bool // for each stage
		over     bool   // the weights do not fit even so
	}{
		{"1xT4-16GB", []bool{true, false, false}, false}, // 12.7 GB of weights and 1.5 GB for frames
		{"1xA10", []bool{false, false, false}, false},
		{"2xT4-8GB", []bool{true, false, false}, false},
		{"1xT4-5GB", []bool{true, true, false}, false},
		{"1xT4-2GB", []bool{true, true, false}, true},
	} {
		d := devices(t, c.spec)
		held, over := Arrange(stages, d, 100)
		var streamed []bool
		var total, activations int64 // activations: of the stage that needs most
		for i, h := range held {
			streamed, total = append(streamed, h.Streamed), total+h.Bytes
			activations = max(activations, estimate(stages[i]).activations())
		}
		if !slices.Equal(streamed, c.streamed) || over > 0 != c.over {
			t.Errorf("%s: got streamed stages %v and %d bytes too many, want %v and too many: %v", c.spec, streamed, over,
				c.streamed, c.over)
		}
		// The weights fit; where only the text encoder is streamed, one more resident layer would not fit.
		room := d[0].room() - activations
		if !c.over && (total > room || c.streamed[0] && !c.streamed[1] && total+385_892_352 < room) {
			t.Errorf("%s: got %d bytes of weights, want less than a layer below %d", c.spec, total, room)
		}
	}
}

// TestArrangeMapped: workers on one host's processors share one copy of the weights. If the weights do not fit, the largest
// stage is streamed first, and only as many of its blocks as necessary.
func TestArrangeMapped(t *testing.T) {
	stages := xxl(stdit3(16, 1024, 2))
	stages[1].Parts = []int64{100e6}
	for range 28 {
		stages[1].Parts = append(stages[1].Parts, 82_785_714)
	}
	all := stages[0].Weights + stages[1].Weights + stages[2].Weights
	act := int64(0)
	for _, s := range stages {
		act = max(act, estimate(s).activations())
	}
	for _, c := range []struct {
		workers   int
		memory    int64 // of all workers together, without activations
		streamed  []bool
		over      bool
		stay, fit int // at least and at most so many layers of T5 are resident
	}{
		{1, all, []bool{false, false, false}, false, 24, 24},
		{1, all - 1, []bool{true, false, false}, false, 20, 24},
		{4, all - 1, []bool{true, false, false}, false, 14, 18}, // each worker computes another block at the same time
		{1, 5e9, []bool{true, false, false}, false, 1, 5},
		{1, 3.9e9, []bool{true, true, false}, false, 0, 3},
		{1, 1e9, []bool{true, true, false}, true, 0, 0},
	} {
		workers := Ranks(slices.Repeat([]float64{1}, c.workers))
		for i := range workers {
			workers[i].Mapped, workers[i].Memory = true, act+c.memory/int64(c.workers)+1
		}
		if c.memory == all-1 {
			workers[0].Memory -= 3
		}
		held, over := Arrange(stages, workers, 0)
		var total int64
		var streamed []bool
		for _, h := range held {
			total, streamed = total+h.Bytes, append(streamed, h.Streamed)
		}
		if !slices.Equal(streamed, c.streamed) || (over > 0) != c.over {
			t.Errorf("%d workers with %d bytes: got streamed stages %v and %d bytes too many, want %v and too many: %v",
				c.workers, c.memory, streamed, over, c.streamed, c.over)
		}
		if stay := held[0].Stay; held[0].Streamed && (stay < c.stay || stay > c.fit) {
			t.Errorf("%d workers with %d bytes: got %d resident layers, want %d to %d", c.workers, c.memory, stay, c.stay, c.fit)
		}
		if limit := c.memory + int64(c.workers); !c.over && total > limit {
			t.Errorf("%d workers: got %d bytes of weights, want at most %d", c.workers, total, limit)
		}
	}
}

// TestArrangeAsked: a stage whose options ask for 2 x 2 parts is split so, and its memory is that of the largest part: the first
// one here, 3e9 bytes.
func TestArrangeAsked(t *testing.T) {
	stages := xxl(stdit3(16, 1024, 2))
	stages[0].Grid = cost.Grid{Sequence: 1, Tensor: 2, Pipeline: 2}
	stages[0].Shards = [][]int64{{1e9, 1e9, 1e9}, {9e8, 2e9}, {5e8, 2e9}, {4e8, 2e9}}
	r, err := Search(Query{Stages: stages, Devices: devices(t, "4xT4-16GB"), Elements: 8})
	if err != nil {
		t.Fatal(err)
	}
	if h := r.Placements[0]; h.Bytes != 3e9 || h.Grid.Shards() != 4 || !strings.Contains(h.String(), "tp_size 2 by pp_size 2") {
		t.Errorf("got %+v: %s, want 3e9 bytes, 4 parts and a text with tp_size 2 by pp_size 2", h, h)
	}
	for _, m := range r.Best.Sets[0].Memory {
		if m.Weights > 6.3e9 {
			t.Errorf("got %d bytes of weights on a device, want at most 6.3e9", m.Weights)
		}
	}
}

// TestArrangeAskedAndPassing: T5 is split into two parts because the job asks for it, and a part still does not fit a device. Its
// blocks are then streamed too, and as many stay resident as fit the fullest device.
func TestArrangeAskedAndPassing(t *testing.T) {
	stages := xxl(stdit3(16, 1024, 2))
	layer := stages[0].Parts[1]
	stages[0].Grid = cost.Grid{Sequence: 1, Tensor: 1, Pipeline: 2}
	half := slices.Repeat([]int64{layer}, 12)
	stages[0].Shards = [][]int64{append([]int64{263_200_768}, half...), append([]int64{0}, half...)}
	r, err := Search(Query{Stages: stages[:1], Devices: devices(t, "2xT4-4GB"), Elements: 8})
	if err != nil {
		t.Fatal(err)
	}
	h := r.Placements[0]
	if room := devices(t, "1xT4-4GB")[0].room(); !h.Streamed || h.Stay != 6 || h.Bytes != 263_200_768+8*layer || h.Bytes > room ||
		!strings.Contains(h.String(), "pp_size 2, 6 blocks of each stay") {
		t.Errorf("got %+v: %s, want 6 resident blocks, 2 buffers of a block, and at most %d bytes", h, h, room)
	}
	// Two or four workers on the processors of one host, which holds both parts. Each pair of workers needs two more layers of each
	// part as buffers, so that four workers leave less room for resident layers.
	for workers, stay := range map[int]int{2: 5, 4: 3} {
		of := Ranks(slices.Repeat([]float64{1}, workers))
		for i := range of {
			of[i].Mapped, of[i].Memory = true, 6e9/int64(workers)
		}
		held, over := Arrange(stages[:1], of, 0)
		if h := held[0]; !h.Streamed || over != 0 || h.Stay != stay || h.Bytes != 263_200_768+2*7*layer {
			t.Errorf("%d workers: got %+v and %d bytes too many, want %d resident layers of each part", workers, h, over, stay)
		}
	}
}

// TestArrangeStreamedPipeline: with 2 elements, loading the layers takes most of the time, so a pipeline of two devices that each
// stream half of the layers is faster. With 64 elements every device streams all layers.
func TestArrangeStreamedPipeline(t *testing.T) {
	stages := xxl(stdit3(16, 1024, 2))[:1]
	for elements, runs := range map[int]int{2: 2, 64: 0} {
		held, _ := Arrange(stages[:1], devices(t, "2xT4-4GB"), elements)
		if h := held[0]; !h.Streamed || len(h.Runs) != runs || len(h.Rejected) != 1 {
			t.Errorf("%d elements: got %+v, want streaming with a pipeline of %d devices (0: none) and 1 rejected way", elements, h, runs)
		} else if runs > 0 && !strings.Contains(h.String(), "blocks split over 2 devices by [12 12], ") {
			t.Errorf("%d elements: got %s, want blocks split over 2 devices by [12 12]", elements, h)
		}
	}
}

// TestPassing: of the streamed blocks only two count as memory, because two buffers hold them one after the other. Weights that
// belong to no block (7 of 107 bytes here) always count.
func TestPassing(t *testing.T) {
	s := cost.Estimate{Weights: 107, Parts: []int64{7, 10, 20, 30, 40}}
	for _, c := range []struct {
		held cost.Placement
		stay int
		want int64
	}{
		{estimate(s).wholePlacement(), 4, 107}, {estimate(s).wholePlacement(), 2, 107}, {estimate(s).wholePlacement(), 1, 97}, {estimate(s).wholePlacement(), 0, 87},
		{cost.Placement{InAll: true, Bytes: 50}, 0, 50}, {cost.Placement{Streamed: true, Stay: 1, Bytes: 97}, 2, 97},
		{cost.Placement{Streamed: true, Stay: 1, Bytes: 97}, 0, 87},
		{cost.Placement{Runs: []sequence.Range{{Lo: 0, Hi: 3}, {Lo: 3, Hi: 4}}, Bytes: 67}, 0, 67},
	} {
		if got := Passing(c.held, s, c.stay).Bytes; got != c.want {
			t.Errorf("%+v with %d resident blocks: got %d bytes, want %d", c.held, c.stay, got, c.want)
		}
	}
}

// TestStepOnGrids: a step on several devices is as much faster than on one as the grid of sequence, tensor and pipeline ranks
// allows. A pipeline loses time while it fills: S stages need S-1+k rounds for k parts.
func TestStepOnGrids(t *testing.T) {
	split := *stdit3(30, 3600, 2)[1].Split
	split.Sums = 6
	step := func(spec string, g cost.Grid, k int) Forward {
		s := split
		s.Grid = g
		f, err := Cheapest(s, k, devices(t, spec))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	one := step("1xH100", cost.Grid{}, 2)
	for _, c := range []struct {
		g        cost.Grid
		k        int
		faster   float64 // than one device
		exchange bool
	}{
		{cost.Grid{Sequence: 1, Tensor: 1, Pipeline: 2}, 2, 2, true},
		{cost.Grid{Sequence: 1, Tensor: 2, Pipeline: 1}, 2, 2, true},
		{cost.Grid{Sequence: 2, Tensor: 2, Pipeline: 1}, 2, 4, true},
		{cost.Grid{Sequence: 2, Tensor: 1, Pipeline: 2}, 2, 4, true},
	} {
		f := step([]string{"2xH100", "4xH100"}[c.g.Ranks()/4], c.g, c.k)
		if got := one.Compute / f.Compute; got < c.faster*0.99 || got > c.faster*1.01 || (f.Wire > 0) != c.exchange ||
			f.Plan.Ranks != c.g.Sequence {
			t.Errorf("%v: got %.2f times the speed, %.3f s of exchange and a plan of %d ranks, want %g times, exchange %v and %d ranks",
				c.g, got, f.Wire, f.Plan.Ranks, c.faster, c.exchange, c.g.Sequence)
		}
	}
	one = step("1xH100", cost.Grid{}, 1)
	for stages, want := range map[int]float64{2: 4. / 3, 3: 6. / 4, 4: 8. / 5} { // the two branches of one element are the parts: S stages take S+1 rounds
		f := step(fmt.Sprintf("%dxH100", stages), cost.Grid{Sequence: 1, Tensor: 1, Pipeline: stages}, 1)
		if got := one.Compute / f.Compute; math.Abs(got-want) > 0.01 {
			t.Errorf("one element on a pipeline of %d stages: got %.2f times the speed of one device, want %.2f", stages, got, want)
		}
	}
	three := step("1xH100", cost.Grid{}, 3)
	f := step("2xH100", cost.Grid{Sequence: 1, Tensor: 1, Pipeline: 2}, 3)
	if got := three.Compute / f.Compute; math.Abs(got-2) > 0.01 {
		t.Errorf("three elements on a pipeline of 2 stages: got %.2f times the speed of one device, want 2", got)
	}
	f = step("4xH100", cost.Grid{Sequence: 2, Tensor: 1, Pipeline: 2}, 1)
	if got := one.Compute / f.Compute; math.Abs(got-2) > 0.02 {
		t.Errorf("one element on 2 pipelines that share its tokens: got %.2f times the speed of one device, want 2", got)
	}
	tokens := int64(2 * 2 * 30 * 3600 * 1152) // numbers of a tensor: 2 elements, 2 branches, 30 frames, 3600 positions, width 1152
	f = step("3xH100", cost.Grid{Sequence: 1, Tensor: 3, Pipeline: 1}, 2)
	if want := 28 * 6 * 2 * 4 * tokens; f.Sent != want {
		t.Errorf("the last of 3 tensor ranks sends %d bytes, want %d (28 pairs, 6 sums, 2 other ranks, 4 bytes)", f.Sent, want)
	}
}

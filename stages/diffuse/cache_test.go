package diffuse

import (
	"context"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/diffuse/dit"
	"latentbeam/stages/diffuse/sampler"
	"latentbeam/stages/nn/nntest"
	"latentbeam/stages/sequence"
)

// cacheOf sets the option `cache`.
func cacheOf(threshold float64, warmup int) func(*plainOptions) {
	return func(o *plainOptions) {
		o.Cache = &dit.StepCache{Name: dit.EasyCache, Threshold: &threshold, Warmup: &warmup}
	}
}

// pipedBy sets sequence_parallel, tp_size and pp_size.
func pipedBy(grid [3]int) func(*plainOptions) {
	return func(o *plainOptions) {
		o.SequenceParallel, o.TPSize, o.PPSize = schemas.AutoInt(grid[0]), schemas.AutoInt(grid[1]), schemas.AutoInt(grid[2])
	}
}

func readingsOf(batch []*stages.Element) (all []map[string]string) {
	for _, e := range batch {
		all = append(all, e.Readings)
	}
	return all
}

// TestCacheIsOfTheRow: with a cache that skips evaluations, the bytes of a row do not depend on the batch, the set and how
// weights are split. A threshold that nothing stays below gives the bytes of a sampling without a cache.
func TestCacheIsOfTheRow(t *testing.T) {
	for name, config := range map[string]string{"wan": strings.Replace(fullConfig, `"1.3"`, `"wan"`, 1),
		"with variances": strings.Replace(plainConfig, `"1.3"`, `"1.0"`, 1)} {
		t.Run(name, func(t *testing.T) { testCacheIsOfTheRow(t, config) })
	}
}

func testCacheIsOfTheRow(t *testing.T, config string) {
	run := func(change func(*plainOptions), ranks int, batch []*stages.Element) {
		t.Helper()
		for _, e := range batch {
			e.Row.NumInferenceSteps = 12
		}
		s := stageOf(t, config, change)
		set := stages.Alone(cpu.New(1))
		if ranks > 1 {
			set = setOf(sequence.Equal(ranks), func() kernels.Backend { return cpu.New(1) })
		}
		if err := s.RunSet(t.Context(), set, batch); err != nil {
			t.Fatal(err)
		}
	}
	for _, guidance := range []float64{1, 4} {
		exact, never, cached := batchOf(3, 33, guidance), batchOf(3, 33, guidance), batchOf(3, 33, guidance)
		run(nil, 1, exact)
		run(cacheOf(1e-9, 1), 1, never)
		if digest(t, never) != digest(t, exact) {
			t.Errorf("guidance %g: a cache that leaves nothing out changes the result", guidance)
		}
		run(cacheOf(0.5, 2), 1, cached)
		want := digest(t, cached)
		if want == digest(t, exact) {
			t.Errorf("guidance %g: nothing was left out", guidance)
		}
		alone := batchOf(3, 33, guidance)
		for i := range alone {
			run(cacheOf(0.5, 2), 1, alone[i:i+1])
		}
		if digest(t, alone) != want {
			t.Errorf("guidance %g: a batch changes the result", guidance)
		}
		for ranks := 2; ranks <= 8; ranks++ {
			other := batchOf(3, 33, guidance)
			run(cacheOf(0.5, 2), ranks, other)
			if digest(t, other) != want {
				t.Errorf("guidance %g: %d ranks change the result", guidance, ranks)
			}
		}
		cut := batchOf(3, 33, guidance)
		run(func(o *plainOptions) { cacheOf(0.5, 2)(o); o.TPSize, o.SequenceParallel = 2, 2 }, 4, cut)
		if digest(t, cut) != want {
			t.Errorf("guidance %g: tp_size 2 x sequence_parallel 2 changes the result", guidance)
		}
		for _, grid := range [][3]int{{1, 1, 2}, {1, 1, 3}, {2, 1, 2}, {1, 2, 2}, {2, 2, 2}} {
			for n := 1; n <= 5; n += 2 { // the branches of a single row pass a pipeline one by one
				piped, plain := batchOf(n, 33, guidance), batchOf(n, 33, guidance)
				run(func(o *plainOptions) { cacheOf(0.5, 2)(o); pipedBy(grid)(o) }, grid[0]*grid[1]*grid[2], piped)
				run(cacheOf(0.5, 2), 1, plain)
				if digest(t, piped) != digest(t, plain) || !reflect.DeepEqual(readingsOf(piped), readingsOf(plain)) || len(plain[0].Readings) != 2 {
					t.Errorf("guidance %g, %d rows: a pipeline of %v changes the result: %v, want %v", guidance, n, grid, readingsOf(piped), readingsOf(plain))
				}
			}
		}
	}
}

// TestEasyCacheRule: which evaluations are skipped depends only on inputs and outputs. A skipped prediction is the input plus
// what the last evaluation added. The expected numbers were computed by hand.
func TestEasyCacheRule(t *testing.T) {
	s := stageOf(t, strings.Replace(plainConfig, `"1.3"`, `"wan"`, 1), cacheOf(0.25, 2))
	e := batchOf(1, 33, 1)[0]
	e.Row.NumInferenceSteps = 8
	j, err := s.newJob([]*stages.Element{e}, 0)
	if err != nil {
		t.Fatal(err)
	}
	var computed []int
	step := 0
	network := func(_ context.Context, rows, _ []float32, _ []bool) ([]float32, error) {
		computed = append(computed, step)
		out := make([]float32, len(rows))
		for i, v := range rows {
			out[i] = 2*v + 1 // its rate is 2
		}
		return out, nil
	}
	c := newEasyCache(portion{job: j}, &networks{branches: 1, all: network}, &sampler.State{})
	n := j.values()
	var got []float32
	for x := float32(1); step < 8; step, x = step+1, x+0.25 {
		out, err := c.evaluate(t.Context(), slices.Repeat([]float32{x}, n), nil, nil)
		if err != nil || len(out) != n {
			t.Fatal(len(out), err)
		}
		got = append(got, out[0])
	}
	// Step 1, at 1.25, gives 3.5; from then on each step adds 0.5 / 3.5 = 0.143: step 2 is left out, step 3 would pass 0.25 and gives
	// 4.5; steps 4 and 5 add 0.111 each and are left out, step 6 gives 6; step 7 is the last.
	if want := []int{0, 1, 3, 6, 7}; !slices.Equal(computed, want) {
		t.Errorf("steps %v are computed, want %v", computed, want)
	}
	if want := []float32{3, 3.5, 3.75, 4.5, 4.75, 5, 6, 6.5}; !slices.Equal(got, want) {
		t.Errorf("predictions %v, want %v", got, want)
	}
	if c.network.evaluations != 5 {
		t.Errorf("%d evaluations are counted, want 5", c.network.evaluations)
	}
}

// intervalOf sets the option `guidance_interval`.
func intervalOf(from, to float64) func(*plainOptions) {
	return func(o *plainOptions) { o.GuidanceInterval = []float64{from, to} }
}

// TestGuidanceInterval: steps outside of the interval have the bytes of steps without guidance, whatever the batch, the set
// and the split of the weights. An interval of all steps gives the bytes of a job without one.
func TestGuidanceInterval(t *testing.T) {
	for name, config := range map[string]string{"wan": strings.Replace(fullConfig, `"1.3"`, `"wan"`, 1),
		"with variances": strings.Replace(plainConfig, `"1.3"`, `"1.0"`, 1)} {
		t.Run(name, func(t *testing.T) { testGuidanceInterval(t, config) })
	}
}

func testGuidanceInterval(t *testing.T, config string) {
	run := func(change func(*plainOptions), ranks int, batch []*stages.Element) string {
		t.Helper()
		for _, e := range batch {
			e.Row.NumInferenceSteps = 10
		}
		set := stages.Alone(cpu.New(1))
		if ranks > 1 {
			set = setOf(sequence.Equal(ranks), func() kernels.Backend { return cpu.New(1) })
		}
		if err := stageOf(t, config, change).RunSet(t.Context(), set, batch); err != nil {
			t.Fatal(err)
		}
		return digest(t, batch)
	}
	whole := run(nil, 1, batchOf(3, 33, 4))
	if run(intervalOf(0, 1), 1, batchOf(3, 33, 4)) != whole {
		t.Error("an interval of all steps changes the result")
	}
	none := batchOf(3, 33, 4)
	if run(intervalOf(0, 0.05), 1, none) != run(nil, 1, batchOf(3, 33, 1)) { // int(0.05 * 10) = 0 steps
		t.Error("an interval of no step is not the sampling without guidance")
	}
	part := batchOf(3, 33, 4)
	want := run(intervalOf(0.2, 0.7), 1, part)
	if want == whole || want == digest(t, none) {
		t.Error("the interval contains no step or all steps")
	}
	for _, e := range part {
		if e.Readings[schemas.ReadingComputed] != "15" || e.Readings[schemas.ReadingEvaluations] != "20" {
			t.Errorf("%v, want 15 of 20", e.Readings)
		}
	}
	if alone := batchOf(3, 33, 4); true {
		for i := range alone {
			run(intervalOf(0.2, 0.7), 1, alone[i:i+1])
		}
		if digest(t, alone) != want {
			t.Error("a batch changes the result")
		}
	}
	for ranks := 2; ranks <= 8; ranks++ {
		if other := batchOf(3, 33, 4); run(intervalOf(0.2, 0.7), ranks, other) != want || other[0].Readings[schemas.ReadingComputed] != "15" {
			t.Errorf("%d ranks change the result: %v", ranks, other[0].Readings)
		}
	}
	if run(func(o *plainOptions) { intervalOf(0.2, 0.7)(o); o.TPSize, o.SequenceParallel = 2, 2 }, 4, batchOf(3, 33, 4)) != want {
		t.Error("tp_size 2 x sequence_parallel 2 changes the result")
	}

	for _, grid := range [][3]int{{1, 1, 2}, {1, 1, 3}, {2, 1, 2}, {1, 2, 2}} {
		for n := 1; n <= 3; n += 2 {
			piped, plain := batchOf(n, 33, 4), batchOf(n, 33, 4)
			run(intervalOf(0.2, 0.7), 1, plain)
			run(func(o *plainOptions) { intervalOf(0.2, 0.7)(o); pipedBy(grid)(o) }, grid[0]*grid[1]*grid[2], piped)
			if digest(t, piped) != digest(t, plain) || piped[0].Readings[schemas.ReadingComputed] != "15" {
				t.Errorf("a pipeline of %v changes the result of %d rows: %v", grid, n, piped[0].Readings)
			}
		}
	}

	both := func(o *plainOptions) { cacheOf(5, 2)(o); intervalOf(0.2, 0.7)(o) }
	cached := run(both, 1, batchOf(3, 33, 4))
	if cached == want {
		t.Error("a cache leaves nothing out")
	}
	for ranks := 2; ranks <= 3; ranks++ {
		if run(both, ranks, batchOf(3, 33, 4)) != cached {
			t.Errorf("%d ranks change the result with a cache", ranks)
		}
	}
	if run(func(o *plainOptions) { both(o); pipedBy([3]int{1, 1, 2})(o) }, 2, batchOf(3, 33, 4)) != cached {
		t.Error("a pipeline changes the result with a cache")
	}
	if run(func(o *plainOptions) { cacheOf(1e-9, 1)(o); intervalOf(0.2, 0.7)(o) }, 1, batchOf(3, 33, 4)) != want {
		t.Error("a cache that leaves nothing out changes the result")
	}
}

// TestCacheIsRefused where it is not supported, with an error that says why.
func TestCacheIsRefused(t *testing.T) {
	open := func(config string, change func(*plainOptions)) error {
		t.Helper()
		m := modelOf(t, config)
		_, err := Spec([]dit.Family{plainFamily()}, nil, nil).New(m, func(target any) error {
			change(target.(*plainOptions))
			return nil
		})
		return err
	}
	wan := strings.Replace(plainConfig, `"1.3"`, `"wan"`, 1)
	nntest.WantError(t, "name", open(wan, func(o *plainOptions) { o.Cache = &dit.StepCache{Name: "teacache"} }), `cache.name is "teacache": there are easycache and magcache`)
	nntest.WantError(t, "no ratios", open(wan, func(o *plainOptions) { o.Cache = &dit.StepCache{Name: dit.MagCache} }), "magcache needs ratios")
	nntest.WantError(t, "pp", open(wan, func(o *plainOptions) { o.Cache, o.PPSize = &dit.StepCache{Name: dit.MagCache}, 2 }), "magcache cannot be used with pp_size")
	nntest.WantError(t, "threshold", open(wan, cacheOf(0, 2)), "cache.threshold is 0")
	nntest.WantError(t, "warmup", open(wan, cacheOf(0.1, 0)), "cache.warmup is 0")
	for _, wrong := range [][]float64{{0.5}, {0.5, 0.5}, {-0.1, 0.5}, {0.2, 1.5}, {0, 0.5, 1}, {math.NaN(), 1}} {
		nntest.WantError(t, "interval", open(wan, func(o *plainOptions) { o.GuidanceInterval = wrong }), "give two fractions of the steps")
	}
}

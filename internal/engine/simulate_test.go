package engine

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"latentbeam/internal/engine/schedule"
	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/cost"
	"latentbeam/stages/layout"
	"latentbeam/stages/sequence"
)

// published are the seconds of one H100 for one video, 30 steps, text encoder and decoder included: Open-Sora
// 1.2's README, at its latent frames (after a temporal stride of 17 to 5) and positions (16 x 16 pixels).
var published = []struct {
	frames, positions int
	seconds           float64
}{
	{1, 920, 3}, {15, 920, 18}, {30, 920, 31}, {60, 920, 62}, {120, 920, 121}, // 360p: image, 2 to 16 s
	{1, 1590, 2}, {15, 1590, 29}, {30, 1590, 55}, {60, 1590, 108}, {120, 1590, 219}, // 480p
	{1, 3600, 6}, {15, 3600, 68}, {30, 3600, 130}, {60, 3600, 260}, {120, 3600, 547}, // 720p
}

// world is 8 devices, one of them half as fast, and what a set of them takes for videos.
type world struct {
	devices []layout.DeviceModel
	mu      sync.Mutex
	cache   map[string]float64
}

func newWorld(t *testing.T) *world {
	d, err := layout.ParseDevices("8xH100-80GB")
	if err != nil {
		t.Fatal(err)
	}
	d[7].Rate /= 2
	return &world{devices: d, cache: map[string]float64{}}
}

// split is STDiT3-XL/2 at a published shape.
func split(shape int) cost.Split {
	const c, text = 1152, 300
	p := published[shape]
	return cost.Split{
		Shape: sequence.Shape{Batch: 2, Frames: p.frames, Positions: p.positions, Heads: 16, HeadSize: 72, QueryTile: 64},
		Pairs: 28, Steps: 30, Bytes: 2, Costs: sequence.Costs{
			Local: (2*28-6)*c*c + 4*float64(p.frames)*c + 2*4*text*c, Project: 6 * c * c, Score: 4 * 72},
	}
}

// seconds is what devices (indices) take for k videos of a published shape, as one batch: the published time,
// scaled by what the cost model says of the set. alike shares as others do: equal parts whatever the speed, padded.
func (w *world) seconds(shape, k int, set []int, alike bool) float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := fmt.Sprint(shape, k, len(set), slices.Contains(set, 7), alike)
	if s, ok := w.cache[key]; ok {
		return s
	}
	work := split(shape)
	alone, err := layout.Cheapest(work, 1, w.devices[:1])
	if err != nil {
		panic(err)
	}
	var group []layout.DeviceModel
	for _, i := range set {
		group = append(group, w.devices[i])
	}
	if alike {
		work.Partitions = []sequence.Partition{sequence.Pad}
	}
	f, err := layout.Cheapest(work, k, group)
	if err != nil {
		panic(err)
	}
	w.cache[key] = published[shape].seconds * f.Seconds() / alone.Seconds()
	return w.cache[key]
}

// bound is the least possible time: all speeds together, no exchange, no waste.
func (w *world) bound(jobs []int) (total float64) {
	for _, j := range jobs {
		total += published[j].seconds
	}
	return total / 7.5
}

var everyone = []int{0, 1, 2, 3, 4, 5, 6, 7}

// oneByOne runs every job on all devices.
func (w *world) oneByOne(jobs []int, alike bool) (total float64) {
	for _, j := range jobs {
		total += w.seconds(j, 1, everyone, alike)
	}
	return total
}

// static gives job i to device i mod 8 before anything is known.
func (w *world) static(jobs []int) float64 {
	var free [8]float64
	for i, j := range jobs {
		free[i%8] += w.seconds(j, 1, []int{i % 8}, false)
	}
	return slices.Max(free[:])
}

// dynamic lets a free device take the next job, always alone.
func (w *world) dynamic(jobs []int) float64 {
	var free [8]float64
	for _, j := range jobs {
		first := slices.Index(free[:], slices.Min(free[:]))
		free[first] += w.seconds(j, 1, []int{first}, false)
	}
	return slices.Max(free[:])
}

// simulated is the pool of a world.
type simulated struct {
	fakePool
	w *world
}

func (p *simulated) Size() int           { return len(p.w.devices) }
func (p *simulated) Memory() cost.Memory { return cost.Memory{Target: 1, Limit: 70e9} }

func (p *simulated) Speeds() (out []float64) {
	for _, d := range p.w.devices {
		out = append(out, d.Rate)
	}
	return out
}

func (p *simulated) LeaseThese(_ context.Context, devices []int) (*stages.Set, func(bool), error) {
	set := &stages.Set{}
	for _, d := range devices {
		set.Devices = append(set.Devices, numbered{number: d})
		set.Speeds = append(set.Speeds, p.w.devices[d].Rate)
	}
	return set, func(bool) {}, nil
}

// sleeper is a denoiser that takes as long as a world says.
type sleeper struct {
	fakeStage
	w *world
}

// Need is 2.5 residual streams in 16 bit.
func (s sleeper) Need(row *schemas.PromptRow, n int) (int64, error) {
	p := published[row.NumFrames]
	return int64(n) * 2 * int64(p.frames*p.positions) * 1152 * 5, nil
}

func (s sleeper) Capabilities() stages.Capabilities {
	can := spread(0, s.runSet)
	can.Cost = s.cost
	return can
}

func (s sleeper) cost(row *schemas.PromptRow) (cost.Estimate, error) {
	split := split(row.NumFrames)
	return cost.Estimate{Split: &split}, nil
}

func (s sleeper) runSet(_ context.Context, set *stages.Set, batch []*stages.Element) error {
	var devices []int
	for _, d := range set.Devices {
		devices = append(devices, d.(*kernels.Metered).Backend.(numbered).number)
	}
	s.sleep(devices, batch)
	return nil
}

func (s sleeper) sleep(devices []int, batch []*stages.Element) {
	time.Sleep(time.Duration(s.w.seconds(batch[0].Row.NumFrames, len(batch), devices, false) * float64(time.Second)))
	for _, e := range batch {
		latent(e)
	}
}

// numbered is a device that knows its number.
type numbered struct {
	idle
	number int
}

// Run is what one device does.
func (s sleeper) Run(_ context.Context, dev kernels.Backend, batch []*stages.Element) error {
	s.sleep([]int{dev.(*kernels.Metered).Backend.(numbered).number}, batch)
	return nil
}

// row is number i of a job, of a published shape.
func row(i, shape int) schemas.PromptRow {
	return schemas.PromptRow{ID: fmt.Sprint(i), Prompt: fmt.Sprint(i), NumFrames: shape, Width: 8, Height: 8}
}

// engine runs the jobs through the engine, from the bucket on, behind a stage that takes next to no time.
func (w *world) engine(t *testing.T, jobs []int) (seconds float64) {
	synctest.Test(t, func(t *testing.T) {
		encode := fakeStage{run: func(context.Context, []*stages.Element) error {
			time.Sleep(time.Millisecond)
			return nil
		}}
		first := stages.Step{Name: "encode", Stage: encode, Gives: stages.KindPrompt,
			Spec: stages.Spec{Name: "encode", In: stages.KindPrompt, Out: stages.KindPrompt}}
		e := newEngine(t, 8, first, step("denoise", fakeStage{}))
		e.Schedule.Pool = &simulated{w: w}
		e.Schedule.Steps[1].Stage = sleeper{w: w}
		for shape := range published {
			n := 0
			for _, j := range jobs {
				if j == shape {
					n++
				}
			}
			e.Expected = append(e.Expected, schedule.Expected{Row: row(0, shape), Rows: n})
		}
		e.Schedule.Reset(e.Expected)
		done := 0
		out := func(b *stages.Batch) { done += len(b.Elements) }
		began := time.Now()
		e.play(t, jobs, out)
		if done != len(jobs) {
			t.Errorf("%d of %d videos came out", done, len(jobs))
		}
		seconds = time.Since(began).Seconds()
	})
	return seconds
}

// play takes videos of these shapes through the engine, from the bucket on.
func (e *Engine) play(t *testing.T, jobs []int, emit func(*stages.Batch)) {
	var finish []func()
	for i := range slices.Backward(e.Schedule.Steps) {
		f, next := station(t, e, i), emit
		finish = append(finish, func() { f.end(t, next) })
		emit = func(b *stages.Batch) {
			if err := f.Submit(b, next); err != nil {
				t.Fatal(err)
			}
		}
	}
	bucket := e.Buckets()
	for i, j := range jobs {
		bucket.Add(&stages.Element{Row: row(i, j)}, emit)
	}
	bucket.Close(emit)
	for _, end := range slices.Backward(finish) {
		end()
	}
}

// The design holds the engine to 5 % above the bound for the mixed job, and to be better than each of the
// other ways for both.
func TestSimulation(t *testing.T) {
	w := newWorld(t)
	rng := rand.New(rand.NewPCG(1, 2))
	mixed := make([]int, 1000)
	for i := range mixed {
		mixed[i] = rng.IntN(len(published))
	}
	equal := slices.Repeat([]int{12}, 9) // 720p 4s
	var table strings.Builder
	fmt.Fprintf(&table, "| 8 devices, one half as fast | 1,000 mixed videos | 9 of 720p 4s |\n|---|---|---|\n")
	line := func(name string, f func([]int) float64) (out [2]float64) {
		for i, jobs := range [][]int{mixed, equal} {
			out[i] = f(jobs)
		}
		fmt.Fprintf(&table, "| %s | %.0f s | %.0f s |\n", name, out[0], out[1])
		return out
	}
	bound := line("lower bound: no waste at all", w.bound)
	ours := line("latentbeam", func(j []int) float64 { return w.engine(t, j) })
	best := [2]float64{math.Inf(1), math.Inf(1)}
	for _, other := range []struct {
		name string
		f    func([]int) float64
	}{
		{"each video over all 8, equal shares", func(j []int) float64 { return w.oneByOne(j, true) }},
		{"each video over all 8, shares by speed", func(j []int) float64 { return w.oneByOne(j, false) }},
		{"static shards, a device each", w.static},
		{"free devices take the next, alone", w.dynamic},
	} {
		for i, s := range line(other.name, other.f) {
			best[i] = min(best[i], s)
		}
	}
	documented(t, "simulation", table.String())
	if ours[0] > 1.05*bound[0] {
		t.Errorf("1,000 mixed videos take %.0f s, more than 5%% above the bound of %.0f s", ours[0], bound[0])
	}
	for i, name := range []string{"1,000 mixed videos", "9 equal videos"} {
		if ours[i] >= best[i] {
			t.Errorf("%s take %.0f s, another way %.0f s", name, ours[i], best[i])
		}
	}
}

// Other jobs than the one in the table: mixed ones of any length, and equal ones. Equal devices that finish in one
// instant take their next batches in any order, and the makespan differs: of 360 runs, 15 videos took 260.0 s in 323
// and up to 261.9 s in the others, where the best other way takes 260.0; 18 videos took 312.9 or 321.6 s.
func TestSimulationOfOtherJobs(t *testing.T) {
	w := newWorld(t)
	compare := func(what string, jobs []int, above float64) {
		ours, bound := w.engine(t, jobs), w.bound(jobs)
		others := min(w.oneByOne(jobs, true), w.static(jobs), w.dynamic(jobs))
		t.Logf("%d %s videos: %.0f s, bound %.0f s, others %.0f s", len(jobs), what, ours, bound, others)
		if ours > above*bound || ours > 1.015*others {
			t.Errorf("%d %s videos: %.0f s, bound %.0f s, another way %.0f s", len(jobs), what, ours, bound, others)
		}
	}
	for seed := range uint64(5) {
		rng := rand.New(rand.NewPCG(seed, 7))
		jobs := make([]int, 30+rng.IntN(500))
		for i := range jobs {
			jobs[i] = rng.IntN(len(published))
		}
		compare("mixed", jobs, 1.05)
	}
	for _, n := range []int{1, 2, 7, 8, 9, 10, 13, 15, 16, 18, 25, 30, 33, 40} {
		compare("equal", slices.Repeat([]int{12}, n), 1.1)
	}
}

var update = flag.Bool("update", false, "write the table into the documentation")

// documented compares a table with the one between two marks in the README of the plan. Batches that come at
// one moment may be taken in another order, so numbers may differ by one percent.
func documented(t *testing.T, mark, table string) {
	t.Helper()
	const name = "../../stages/layout/README.md"
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(data), "<!-- "+mark+" -->\n")
	text, after, closed := strings.Cut(rest, "<!-- /"+mark+" -->")
	if !found || !closed {
		t.Fatalf("%s has no place for the %s", name, mark)
	}
	t.Logf("\n%s", table)
	if *update {
		text := before + "<!-- " + mark + " -->\n" + table + "<!-- /" + mark + " -->" + after
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if !alike(text, table) {
		t.Errorf("%s has another table; go test -update writes this one", name)
	}
}

// alike reports whether two texts are equal but for one percent in their numbers.
func alike(a, b string) bool {
	x, y := strings.Fields(a), strings.Fields(b)
	return slices.EqualFunc(x, y, func(x, y string) bool {
		m, errM := strconv.ParseFloat(x, 64)
		n, errN := strconv.ParseFloat(y, 64)
		return x == y || errM == nil && errN == nil && math.Abs(m-n) <= 0.01*n
	})
}

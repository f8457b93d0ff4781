package layout

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"latentbeam/internal/plan/sequence"
)

// published are the seconds of one H100 for one video, 30 steps, text encoder and decoder included: Open-Sora
// 1.2's README, at its latent frames (after a temporal stride of 17 to 5) and positions (16 x 16 pixels).
var published = []struct {
	name              string
	frames, positions int
	seconds           float64
}{
	{"360p image", 1, 920, 3}, {"360p 2s", 15, 920, 18}, {"360p 4s", 30, 920, 31}, {"360p 8s", 60, 920, 62},
	{"360p 16s", 120, 920, 121},
	{"480p image", 1, 1590, 2}, {"480p 2s", 15, 1590, 29}, {"480p 4s", 30, 1590, 55}, {"480p 8s", 60, 1590, 108},
	{"480p 16s", 120, 1590, 219},
	{"720p image", 1, 3600, 6}, {"720p 2s", 15, 3600, 68}, {"720p 4s", 30, 3600, 130}, {"720p 8s", 60, 3600, 260},
	{"720p 16s", 120, 3600, 547},
}

// world is 8 devices, one of them half as fast, and what a set of them takes for a job.
type world struct {
	devices []Device
	cache   map[string]float64
}

func newWorld(t *testing.T) *world {
	w := &world{devices: devices(t, "8xH100-80GB"), cache: map[string]float64{}}
	w.devices[7].Rate /= 2
	return w
}

// seconds is what devices (indices) take for k videos of a published shape, as one batch: the published time,
// scaled by what the cost model says of the set.
func (w *world) seconds(t *testing.T, shape, k int, set []int, equal bool) float64 {
	key := fmt.Sprint(shape, k, len(set), slices.Contains(set, 7), equal)
	if s, ok := w.cache[key]; ok {
		return s
	}
	p := published[shape]
	split := *stdit3(float64(p.frames), float64(p.positions), 2)[1].Split
	alone, err := Cheapest(split, 1, w.devices[:1])
	if err != nil {
		t.Fatal(err)
	}
	var group []Device
	for _, i := range set {
		group = append(group, w.devices[i])
	}
	var f Forward
	if equal { // as others do: equal shares whatever the speed, padded
		plan, err := sequence.New(split.batch(k), sequence.Pad, sequence.Equal(len(set)))
		if err != nil {
			t.Fatal(err)
		}
		f = split.predict(plan, group)
	} else if f, err = Cheapest(split, k, group); err != nil {
		t.Fatal(err)
	}
	w.cache[key] = p.seconds * f.Seconds() / alone.Seconds()
	return w.cache[key]
}

var everyone = []int{0, 1, 2, 3, 4, 5, 6, 7}

// oneByOne runs every job on all devices.
func (w *world) oneByOne(t *testing.T, jobs []int, equal bool) (total float64) {
	for _, j := range jobs {
		total += w.seconds(t, j, 1, everyone, equal)
	}
	return total
}

// static gives job i to device i mod 8 before anything is known.
func (w *world) static(t *testing.T, jobs []int) float64 {
	var free [8]float64
	for i, j := range jobs {
		free[i%8] += w.seconds(t, j, 1, []int{i % 8}, false)
	}
	return slices.Max(free[:])
}

// dynamic lets a free device take the next job, always alone.
func (w *world) dynamic(t *testing.T, jobs []int) float64 {
	var free [8]float64
	for _, j := range jobs {
		first := slices.Index(free[:], slices.Min(free[:]))
		free[first] += w.seconds(t, j, 1, []int{first}, false)
	}
	return slices.Max(free[:])
}

// ours asks Assign at every lease.
func (w *world) ours(t *testing.T, jobs []int) float64 {
	free := make([]float64, 8)
	rest := w.bound(t, jobs) * 7.5 * w.devices[0].Rate
	for i := 0; i < len(jobs); {
		same := 1 // jobs of this shape in a row
		for same < len(jobs)-i && jobs[i+same] == jobs[i] {
			same++
		}
		rest -= published[jobs[i]].seconds * w.devices[0].Rate
		set, k := Assign(Queue{
			Free: free, Rates: rates(w.devices), Left: len(jobs) - i, Rest: rest, Same: same, Most: maxElements,
			Seconds: func(k int, set []int) float64 { return w.seconds(t, jobs[i], k, set, false) },
		})
		start := 0.0
		for _, d := range set {
			start = max(start, free[d])
		}
		end := start + w.seconds(t, jobs[i], k, set, false)
		for _, d := range set {
			free[d] = end
		}
		i += k
	}
	return slices.Max(free)
}

// bound is the least possible time: all speeds together, no exchange, no waste.
func (w *world) bound(t *testing.T, jobs []int) (total float64) {
	for _, j := range jobs {
		total += published[j].seconds
	}
	return total / 7.5
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
	var ours, best [2]float64
	row := func(name string, f func([]int) float64) (out [2]float64) {
		for i, jobs := range [][]int{mixed, equal} {
			out[i] = f(jobs)
		}
		fmt.Fprintf(&table, "| %s | %.0f s | %.0f s |\n", name, out[0], out[1])
		return out
	}
	bound := row("lower bound: no waste at all", func(j []int) float64 { return w.bound(t, j) })
	ours = row("latentbeam", func(j []int) float64 { return w.ours(t, j) })
	best = [2]float64{math.Inf(1), math.Inf(1)}
	for _, other := range []struct {
		name string
		f    func([]int) float64
	}{
		{"each video over all 8, equal shares", func(j []int) float64 { return w.oneByOne(t, j, true) }},
		{"each video over all 8, shares by speed", func(j []int) float64 { return w.oneByOne(t, j, false) }},
		{"static shards, a device each", func(j []int) float64 { return w.static(t, j) }},
		{"free devices take the next, alone", func(j []int) float64 { return w.dynamic(t, j) }},
	} {
		for i, s := range row(other.name, other.f) {
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

// Other jobs than the one in the table: mixed ones of any length, and equal ones.
func TestSimulationOfOtherJobs(t *testing.T) {
	w := newWorld(t)
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 7))
		jobs := make([]int, 30+rng.IntN(500))
		for i := range jobs {
			jobs[i] = rng.IntN(len(published))
		}
		ours, others := w.ours(t, jobs), min(w.oneByOne(t, jobs, true), w.static(t, jobs), w.dynamic(t, jobs))
		if ours > 1.05*w.bound(t, jobs) || ours > others {
			t.Errorf("%d mixed videos: %.0f s, bound %.0f s, another way %.0f s", len(jobs), ours, w.bound(t, jobs), others)
		}
	}
	for n := 1; n <= 40; n++ {
		jobs := slices.Repeat([]int{12}, n)
		ours, others := w.ours(t, jobs), min(w.oneByOne(t, jobs, true), w.static(t, jobs), w.dynamic(t, jobs))
		if ours > 1.1*w.bound(t, jobs) || ours > 1.0001*others {
			t.Errorf("%d equal videos: %.0f s, bound %.0f s, another way %.0f s", n, ours, w.bound(t, jobs), others)
		}
	}
}

var update = flag.Bool("update", false, "write the table into the documentation")

// documented compares a table with the one between two marks in the README of the plan.
func documented(t *testing.T, mark, table string) {
	t.Helper()
	const name = "../README.md"
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
	} else if text != table {
		t.Errorf("%s has another table; go test -update writes this one", name)
	}
}

package layout

import (
	"math"
	"slices"
	"strings"
	"testing"

	"latentbeam/stages/cost"
	"latentbeam/stages/sequence"
)

// stdit3 returns the stages of STDiT3-XL/2 (text encoder, denoiser, decoder) for a latent of t frames of s positions after
// patching. Sizes are those of the published checkpoints, FLOP follow from the shapes of the layers, and activations are
// 2.5 times the residual stream.
func stdit3(t, s, branches float64) []cost.Estimate {
	const c, text, pairs = 1152, 300, 28
	costs := sequence.Costs{
		Local:   (2*28-6)*c*c + 4*t*c + 2*4*text*c,
		Project: 6 * c * c,
		Score:   4 * 72,
	}
	shape := sequence.Shape{Batch: int(branches), Frames: int(t), Positions: int(s), Heads: 16, HeadSize: 72, QueryTile: 64}
	stream := branches * t * s * c * 2
	return []cost.Estimate{
		{Name: "encode_text", Weights: 9_524_621_312, Work: 2 * 4.7e9 * text},
		{
			Name: "denoise", Weights: 2_418_000_000, Work: 30 * pairs * shape.Total(costs),
			Need:  func(n int) (int64, error) { return int64(float64(n) * 2.5 * stream), nil },
			Split: &cost.Split{Shape: shape, Pairs: pairs, Steps: 30, Bytes: 2, Costs: costs},
		},
		{
			Name: "decode_vae", Weights: 768_000_000, Work: 40e12,
			Need: func(n int) (int64, error) { return int64(n) * 1_500_000_000, nil },
		},
	}
}

func devices(t *testing.T, spec string) []DeviceModel {
	t.Helper()
	d, err := ParseDevices(spec)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestWorkedExample: the predicted seconds agree within 6 % with the example that was computed by hand in the design: STDiT3-XL/2,
// 4 s of 720p, one element under guidance, 30 steps.
func TestWorkedExample(t *testing.T) {
	split := *stdit3(30, 3600, 2)[1].Split
	for _, c := range []struct {
		spec    string
		seconds float64
	}{
		{"1xH100", 122}, {"2xH100", 61}, {"3xH100", 41}, {"4xH100", 31}, {"8xH100", 16},
		{"1xA100PCIe", 243}, {"2xA100PCIe", 122}, {"3xA100PCIe", 92}, {"4xA100PCIe", 67}, {"8xA100PCIe", 35},
		{"1xT4", 851}, {"2xT4", 426}, {"3xT4", 321}, {"4xT4", 234}, {"8xT4", 122},
	} {
		f, err := Cheapest(split, 1, devices(t, c.spec))
		if err != nil {
			t.Fatal(err)
		}
		got := 30 * f.Seconds()
		if math.Abs(got-c.seconds) > 0.06*c.seconds {
			t.Errorf("%s: %.1f s, the worked example has %.0f", c.spec, got, c.seconds)
		}
	}
}

// TestSearch: Search finds how many devices compute one batch together (width), how many of the last elements all devices compute
// together as one batch (tail), and whether the text encoder is streamed. What every device needs fits into its memory.
func TestSearch(t *testing.T) {
	small, video, long := xxl(stdit3(16, 1024, 2)), xxl(stdit3(30, 3600, 2)), xxl(stdit3(120, 3600, 2))
	for _, c := range []struct {
		name     string
		stages   []cost.Estimate
		spec     string
		elements int
		width    int
		tail     int
		streamed bool // the blocks of the text encoder
	}{
		{"many elements: every device its own", video, "8xH100-80GB", 1000, 1, 0, false},
		{"one element: all devices", video, "8xH100-80GB", 1, 8, 0, false},
		{"10 elements on 4: two rounds, then two on two each", video, "4xH100-80GB", 10, 1, 2, false},
		{"a T4 does not hold all stages beside a video", video, "4xT4-16GB", 1000, 1, 0, true},
		{"8 GB: most blocks are streamed", small, "4xT4-8GB", 100, 1, 4, true},
		{"three devices, one element", video, "3xA100-40GB", 1, 3, 0, false},
		{"16 s of 720p beside all weights", long, "8xH100-80GB", 1, 8, 0, false},
	} {
		r, err := Search(Query{Stages: c.stages, Devices: devices(t, c.spec), Elements: c.elements})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		b := r.Best
		t.Logf("%s: width %d, %d at once, tail %d, %.0f s; %d lost; %v", c.name, b.Width, b.Elements, b.Tail, b.Seconds,
			len(r.Rejected), r.Placements[0])
		if b.Width != c.width || b.Tail != c.tail || r.Placements[0].Streamed != c.streamed {
			t.Errorf("%s: got width %d, tail %d, text encoder %v; want width %d, tail %d, streamed %v", c.name, b.Width, b.Tail,
				r.Placements[0], c.width, c.tail, c.streamed)
		}
		for _, set := range b.Sets {
			for i, m := range set.Memory {
				if d := devices(t, c.spec)[set.Devices[i]]; m.Total() > d.room() {
					t.Errorf("%s: got a need of %+v, which does not fit %+v", c.name, m, d)
				}
			}
		}
	}
}

// TestOptions: Search keeps a width that the job asks for, and Cheapest the partition that the job asks for.
func TestOptions(t *testing.T) {
	stages := stdit3(16, 1024, 2)
	stages[1].Split.Width = 3
	r, err := Search(Query{Stages: stages, Devices: devices(t, "8xH100"), Elements: 100})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Best.Sets) != 2 || len(r.Best.Sets[1].Devices) != 3 || r.Best.Tail != 0 {
		t.Errorf("sets %+v, want two of three devices", r.Best.Sets)
	}
	if _, err := Search(Query{Stages: stages, Devices: devices(t, "2xH100")}); err == nil {
		t.Error("a set of 3 on 2 devices is accepted")
	}
	for option, want := range map[string]sequence.Partition{"pad": sequence.Pad, "uneven": sequence.Uneven} {
		if stages[1].Split.Partitions, err = Partitions(option); err != nil {
			t.Fatal(err)
		}
		f, err := Cheapest(*stages[1].Split, 1, devices(t, "3xH100"))
		if err != nil || f.Plan.Partition != want {
			t.Errorf("partition %s: got %v and error %v", option, f.Plan.Partition, err)
		}
	}
	if _, err := Partitions("even"); err == nil {
		t.Error("partition even is accepted")
	}
}

// TestTooLarge: if an element fits no set of devices, the error says which device is too small, and which devices would do.
func TestTooLarge(t *testing.T) {
	_, err := Search(Query{Stages: xxl(stdit3(120, 3600, 2)), Devices: devices(t, "2xT4-7GB"), Elements: 1})
	infeasible, ok := err.(*Infeasible)
	if !ok {
		t.Fatalf("error %v, want an *Infeasible", err)
	}
	t.Log(infeasible, infeasible.Fix)
	for _, want := range []string{"T4-7GB", "device 0", "set of 2"} {
		if !strings.Contains(infeasible.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, infeasible)
		}
	}
	if !strings.Contains(infeasible.Fix, "devices like T4-7GB in one set") {
		t.Errorf("the advice is %q", infeasible.Fix)
	}
}

func TestMixedDevicesShareBySpeed(t *testing.T) {
	f, err := Cheapest(*stdit3(30, 3600, 2)[1].Split, 1, devices(t, "2xH100-80GB+1xT4-16GB"))
	if err != nil {
		t.Fatal(err)
	}
	slow, fast := f.Plan.ColumnSlots(2), f.Plan.ColumnSlots(0)
	if ratio := float64(slow) / float64(fast); math.Abs(ratio-20.0/140) > 0.01 {
		t.Errorf("the T4 has %d columns and an H100 %d, want a ratio of 20 to 140, as their speeds", slow, fast)
	}
	if f.Waste > 0.02 {
		t.Errorf("got %.1f%% waste, want at most 2%%", 100*f.Waste)
	}
}

func TestMakespan(t *testing.T) {
	for _, c := range []struct {
		times []float64
		n     int
		want  float64
	}{
		{[]float64{1, 1, 1, 1}, 10, 3}, {[]float64{1, 2}, 3, 2}, {[]float64{1, 2}, 4, 3}, {[]float64{5}, 0, 0},
	} {
		if got := makespan(c.times, c.n); math.Abs(got-c.want) > 1e-6 {
			t.Errorf("%d batches on devices that take %v each: got %g, want %g", c.n, c.times, got, c.want)
		}
	}
}

func TestParseDevices(t *testing.T) {
	d := devices(t, "2xH100-80GB+1xT4-16GB")
	if len(d) != 3 || d[0].Name != "H100-80GB" || d[2].Name != "T4-16GB" || d[0].Island == d[2].Island {
		t.Errorf("parsed %+v", d)
	}
	if b, _ := wire(d); b != d[2].Link {
		t.Errorf("got a bandwidth of %g for the set, want the T4's %g, the lowest", b, d[2].Link)
	}
	if b, _ := wire(devices(t, "1xH100+1xH100")); b != 48*gb {
		t.Errorf("got a bandwidth of %g for two H100 without NVLink, want 48 GB/s, that of the host", b)
	}
	if d := devices(t, "h200"); len(d) != 1 || d[0].Memory != int64(141*gb*usable) {
		t.Errorf("parsed %+v", d)
	}
	for _, spec := range []string{"", "4x", "0xT4", "99999xT4", "T5-16GB", "T4-16", "T4-xGB", "T4--1GB", "T4+", "600xT4+600xT4",
		"T4-1e9GB"} {
		if d, err := ParseDevices(spec); err == nil {
			t.Errorf("%q is accepted: %+v", spec, d)
		}
	}
}

// TestRunChoosesAsPlanDoes: a run knows only the relative speeds of its workers, while `plan` measures their rates and links. Both
// must choose the same partition, for 1 to 8 ranks, the last of half the speed, and several sizes of videos.
func TestRunChoosesAsPlanDoes(t *testing.T) {
	for n := 1; n <= 8; n++ {
		for _, size := range [][2]float64{{1, 37}, {5, 31}, {16, 16}, {16, 1024}, {30, 44}} {
			split := *stdit3(size[0], size[1], 2)[1].Split
			speeds := sequence.Equal(n)
			speeds[n-1] = 0.5
			measured := Ranks(speeds)
			for i := range measured {
				measured[i].Rate, measured[i].Link, measured[i].Latency = speeds[i]*37e9, 40e9, 20e-6
			}
			run, err := Cheapest(split, 2, Ranks(speeds))
			if err != nil {
				t.Fatal(err)
			}
			plan, err := Cheapest(split, 2, measured)
			if err != nil || plan.Plan.Hash != run.Plan.Hash {
				t.Errorf("%d ranks, frames and positions %v: a run takes %v, plan takes %v with error %v", n, size, run.Plan.Partition, plan.Plan.Partition, err)
			}
		}
	}
}

// TestLeast: Least gives the smallest set whose devices hold an element together, or the limit of 64 where no set does.
func TestLeast(t *testing.T) {
	denoise := stdit3(30, 3600, 2)[1] // one element needs 2.5 residual streams of 498 MB: 1.25e9 bytes
	for memory, want := range map[float64]int{2e9: 1, 0.7e9: 2, 0.01e9: 64} {
		if n, err := Least(denoise, 1, DeviceModel{Memory: int64(memory)}, 64); err != nil || n != want {
			t.Errorf("devices of %g bytes: got a set of %d and error %v, want %d", memory, n, err, want)
		}
	}
	four, err := Least(denoise, 1, DeviceModel{Memory: 0.6e9}, 64)
	if err != nil || four < 3 || four > 6 { // more than 1.25e9/0.6e9, because ranks also hold the frames that they share
		t.Errorf("devices of 0.6e9 bytes: got a set of %d and error %v, want 3 to 6", four, err)
	}
}

// TestAssign: Assign gives the next batch to one free device while much is left to do. The last elements are shared by several
// devices, unless one of them is busy for long, the shapes differ, or an element needs a wider set.
func TestAssign(t *testing.T) {
	perfect := func(rates []float64) func(k int, set []int) float64 {
		return func(k int, set []int) float64 {
			speed := 0.0
			for _, d := range set {
				speed += rates[d]
			}
			return float64(k) / speed
		}
	}
	for _, c := range []struct {
		name     string
		free     []float64 // seconds until each device is free
		left     int       // elements to do
		same     int       // as many of them have the shape of the next one
		least    int       // devices that an element needs; 0: one
		set      []int     // wanted devices
		elements int       // wanted size of the batch
	}{
		{"plenty to do", []float64{0, 0, 0, 0}, 100, 100, 0, []int{0}, 1},
		{"the first that is free", []float64{3, 2, 1, 2}, 100, 100, 0, []int{2}, 1},
		{"two left on four", []float64{0, 0, 0, 0}, 2, 2, 0, []int{0, 1, 2, 3}, 2},
		{"one left on four", []float64{0, 0, 0, 0}, 1, 1, 0, []int{0, 1, 2, 3}, 1},
		{"one left, one device busy for long", []float64{0, 0, 0, 9}, 1, 1, 0, []int{0}, 1},
		{"two of different shapes on four", []float64{0, 0, 0, 0}, 2, 1, 0, []int{0, 1}, 1},
		{"an element that needs two", []float64{0, 0, 0, 0}, 100, 100, 2, []int{0, 1}, 1},
	} {
		rates := []float64{1, 1, 1, 1}
		set, k := Assign(Queue{Free: c.free, Rates: rates, Left: c.left, Rest: float64(c.left - 1), SameShape: c.same,
			Least: c.least, Most: 8, Seconds: perfect(rates)})
		if !slices.Equal(set, c.set) || k != c.elements {
			t.Errorf("%s: got %d elements on devices %v, want %d on %v", c.name, k, set, c.elements, c.set)
		}
	}
}

// TestHosts: in a list of devices, a slash begins another host. Devices of several hosts communicate at the network's speed, so a
// set stays on one host if its devices are enough. Hosts do not share a single element if their network costs more than sharing
// gains.
func TestHosts(t *testing.T) {
	d := devices(t, "2xH100+1xT4/4xA100-40GB")
	var islands, nodes []int
	for _, one := range d {
		islands, nodes = append(islands, one.Island), append(nodes, one.Node)
	}
	if !slices.Equal(islands, []int{0, 0, 1, 2, 2, 2, 2}) || !slices.Equal(nodes, []int{0, 0, 0, 1, 1, 1, 1}) {
		t.Errorf("islands %v, hosts %v", islands, nodes)
	}
	fast := d[5]
	fast.Net = 10e9
	for _, c := range []struct {
		set                []DeviceModel
		bandwidth, latency float64
	}{
		{d[0:2], d[0].Link, latency},                             // NVLink
		{d[0:3], d[2].Link, latency},                             // through the host, at the link of the T4
		{[]DeviceModel{d[0], d[5]}, Network, netLatency},         // through the network
		{[]DeviceModel{fast, d[0]}, Network, netLatency},         // only one device states a faster network
		{[]DeviceModel{fast, onNode(fast, 7)}, 10e9, netLatency}, // both do
	} {
		if b, l := wire(c.set); b != c.bandwidth || l != c.latency {
			t.Errorf("%v: got %g bytes/s after %g s, want %g after %g", c.set, b, l, c.bandwidth, c.latency)
		}
	}
	video := stdit3(30, 3600, 2)
	for spec, want := range map[string]int{"4xH100": 4, "1xH100/1xH100": 2, "1xH100/1xH100/1xH100/1xH100": 2, "4xH100/4xH100": 4} {
		r, err := Search(Query{Stages: video, Devices: devices(t, spec), Elements: 1})
		if err != nil || r.Best.Width != want {
			t.Errorf("%s: got a set of %d for one video, want %d (error %v)", spec, r.Best.Width, want, err)
		}
	}
	if a, b := d[3].Relative(d[3]), d[6].Relative(d[3]); a != b || a == d[0].Relative(d[3]) {
		t.Errorf("got relative speeds %v and %v of devices of one kind, want them equal, and another one for an H100", a, b)
	}
}

// onNode returns d as a device of the host with the given number.
func onNode(d DeviceModel, node int) DeviceModel {
	d.Node = node
	return d
}

func FuzzParseDevices(f *testing.F) {
	for _, s := range []string{"4xT4-16GB", "2xH100-80GB+1xT4-16GB", "xx-", "1x1x1", "2xH100/2xA100+T4"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, spec string) {
		d, err := ParseDevices(spec)
		if err != nil {
			return
		}
		for _, d := range d {
			if d.Memory <= 0 || !(d.Rate > 0) || !(d.Link > 0) {
				t.Errorf("%q gives %+v", spec, d)
			}
		}
	})
}

package nvml_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"latentbeam/internal/devices/nvml"
	"latentbeam/internal/devices/nvml/gputest"
)

// survey returns the survey of a host.
func survey(t *testing.T, h *gputest.Host) nvml.Survey {
	t.Helper()
	s, err := h.Survey()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestOf: Of returns a survey of some devices in the given order, which survives JSON. Slowest rates a set by its slowest link.
func TestOf(t *testing.T) {
	s := survey(t, gputest.Mixed())
	some := s.Of([]int{3, 0, 1})
	if some.Devices[0].UUID != gputest.UUID(3) || some.Links[0][2] != s.Links[3][1] || some.Links[1][1] != s.Links[0][0] {
		t.Errorf("devices 3, 0 and 1 have the survey %+v", some)
	}
	nvlink, host, alone := some.Slowest([]int{0, 2}), some.Slowest([]int{0, 1, 2}), some.Slowest([]int{1})
	if !(alone > nvlink && nvlink > host) {
		t.Errorf("got rates alone %d, over NVLink %d, over the host %d; want them falling", alone, nvlink, host)
	}
	text, err := json.Marshal(some)
	if err != nil {
		t.Fatal(err)
	}
	var back nvml.Survey
	if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(back, some) {
		t.Errorf("through JSON, %+v became %+v, %v", some, back, err)
	}
	var p nvml.Path
	if err := p.UnmarshalText([]byte("a wormhole")); err != nil || p != nvml.UnknownPath {
		t.Errorf("a path that this release does not know: got %v, %v; want UnknownPath", p, err)
	}
}

// TestIslands: the number of the island of each device. Devices of an island have fast links to each other.
func TestIslands(t *testing.T) {
	for _, c := range []struct {
		name string
		host *gputest.Host
		want []int
	}{
		{"a switch joins all", gputest.A100s(8), []int{0, 0, 0, 0, 0, 0, 0, 0}},
		{"NVLink before PCIe", gputest.Islands(), []int{0, 0, 0, 0, 1, 1, 1, 1}},
		{"no peers", gputest.T4s(4), []int{0, 1, 2, 3}},
		{"mixed", gputest.Mixed(), []int{0, 1, 2, 1}},
		{"instances have no peers", gputest.Divided(), []int{0, 1, 2, 3, 4}},
	} {
		s := survey(t, c.host)
		if got := s.Islands(); !slices.Equal(got, c.want) {
			t.Errorf("%s: got islands %v, want %v", c.name, got, c.want)
		}
	}
	// Without NVLink, peers over PCIe are an island.
	s := survey(t, gputest.T4s(4))
	for i := range 4 {
		for k := range 4 {
			s.Links[i][k].Peer = i != k && i/2 == k/2
		}
	}
	if got, want := s.Islands(), []int{0, 0, 1, 1}; !slices.Equal(got, want) {
		t.Errorf("PCIe peers: got islands %v, want %v", got, want)
	}
}

// TestChoose: which n of the free devices a job gets.
func TestChoose(t *testing.T) {
	all := func(n int) (out []int) {
		for i := range n {
			out = append(out, i)
		}
		return out
	}
	for _, c := range []struct {
		name string
		host *gputest.Host
		free []int
		n    int
		want []int
	}{
		{"any two of a switch", gputest.A100s(8), all(8), 2, []int{0, 1}},
		{"the shorter path where links are equal", gputest.A100s(8), []int{1, 4, 5}, 2, []int{4, 5}},
		{"inside an island", gputest.Islands(), []int{0, 4, 5, 6}, 3, []int{4, 5, 6}},
		{"the smaller island first", gputest.Islands(), []int{0, 1, 2, 3, 4, 5}, 2, []int{4, 5}},
		{"one from the smaller island", gputest.Islands(), []int{0, 1, 2, 3, 7}, 1, []int{7}},
		{"a whole island and a part of the other", gputest.Islands(), all(8), 6, []int{0, 1, 2, 3, 4, 5}},
		{"more than there are", gputest.Islands(), []int{3, 1}, 5, []int{1, 3}},
		{"T4 of one NUMA node", gputest.T4s(4), []int{0, 2, 3}, 2, []int{2, 3}},
		{"the linked ones of a mixed host", gputest.Mixed(), all(4), 2, []int{1, 3}},
	} {
		s := survey(t, c.host)
		if got := s.Choose(c.free, c.n); !slices.Equal(got, c.want) {
			t.Errorf("%s: %d of %v: got %v, want %v", c.name, c.n, c.free, got, c.want)
		}
	}
}

// TestChooseByLinks: of three devices, Choose takes the two with the better link. NVLinks are better than peers over PCIe, and these are
// better than copies through the host. Where the kind is equal, the shorter path is better.
func TestChooseByLinks(t *testing.T) {
	links := []nvml.Link{ // each is better than the one before
		{Path: nvml.AcrossNodes}, {Path: nvml.OneSwitch}, {Peer: true, Path: nvml.AcrossNodes},
		{Peer: true, Path: nvml.OneSwitch}, {NVLinks: 1, Peer: true, Path: nvml.AcrossNodes},
		{NVLinks: 2, Peer: true, Path: nvml.AcrossNodes},
	}
	for i, worse := range links[:len(links)-1] {
		s := survey(t, gputest.T4s(3)) // 0 and 1 have the better link, 2 has the worse to both
		s.Links = [][]nvml.Link{{{}, links[i+1], worse}, {links[i+1], {}, worse}, {worse, worse, {}}}
		for k := range s.Devices {
			s.Devices[k].NVLinks = s.Links[k][0].NVLinks + s.Links[k][1].NVLinks
		}
		if got := s.Choose([]int{0, 1, 2}, 2); !slices.Equal(got, []int{0, 1}) {
			t.Errorf("devices 0 and 1 have %v, 2 has %v: got %v, want 0 and 1", links[i+1], worse, got)
		}
		s.Links = [][]nvml.Link{{{}, worse, worse}, {worse, {}, links[i+1]}, {worse, links[i+1], {}}}
		if got := s.Choose([]int{0, 1, 2}, 2); !slices.Equal(got, []int{1, 2}) {
			t.Errorf("devices 1 and 2 have %v, 0 has %v: got %v, want 1 and 2", links[i+1], worse, got)
		}
	}
}

// TestBandwidth: the bandwidth of a PCIe slot; 0 for a generation that is not known.
func TestBandwidth(t *testing.T) {
	for _, c := range []struct {
		pcie nvml.PCIe
		want float64 // GB/s, from the tables of the PCIe specification
	}{
		{nvml.PCIe{MaxGeneration: 3, MaxWidth: 16}, 15.75},
		{nvml.PCIe{MaxGeneration: 4, MaxWidth: 16}, 31.5},
		{nvml.PCIe{MaxGeneration: 5, MaxWidth: 8}, 31.5},
		{nvml.PCIe{MaxGeneration: 0, MaxWidth: 16}, 0},
		{nvml.PCIe{MaxGeneration: 99, MaxWidth: 16}, 0},
	} {
		if got := c.pcie.Bandwidth() / 1e9; got < c.want*0.99 || got > c.want*1.01 {
			t.Errorf("%+v: got %.2f GB/s, want %.2f", c.pcie, got, c.want)
		}
	}
}

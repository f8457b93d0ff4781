package nvml

import (
	"maps"
	"math"
	"slices"
)

// Islands returns the number of the island that each device belongs to, counted from 0: devices that NVLink
// joins, directly or over others, are one; of the rest those that reach each other's memory over PCIe. An
// instance of a divided GPU has no peers and is an island of its own.
func (s *Survey) Islands() []int {
	out := make([]int, len(s.Devices))
	for i := range out {
		out[i] = Unknown
	}
	next := 0
	for i := range s.Devices {
		if out[i] != Unknown {
			continue
		}
		joined := func(l Link) bool { return l.NVLinks > 0 }
		if s.Devices[i].NVLinks == 0 {
			joined = func(l Link) bool { return l.Peer && l.NVLinks == 0 }
		}
		s.spread(i, next, out, joined)
		next++
	}
	return out
}

// spread gives device i, and all that are joined to it, the number of an island.
func (s *Survey) spread(i, number int, out []int, joined func(Link) bool) {
	out[i] = number
	for k := range s.Devices {
		if out[k] == Unknown && joined(s.Links[i][k]) {
			s.spread(k, number, out, joined)
		}
	}
}

// Choose returns n of the free devices that talk to each other fastest, in ascending order; all where there
// are fewer. The smallest sufficient island goes first, so that large sets find whole islands later.
func (s *Survey) Choose(free []int, n int) []int {
	free = slices.Sorted(slices.Values(free))
	if n >= len(free) {
		return free
	}
	islands := map[int][]int{}
	numbers := s.Islands()
	for _, d := range free {
		islands[numbers[d]] = append(islands[numbers[d]], d)
	}
	best, found := free, false
	for _, number := range slices.Sorted(maps.Keys(islands)) {
		island := islands[number]
		if len(island) >= n && (!found || len(island) < len(best)) {
			best, found = island, true
		}
	}
	return s.closest(best, n)
}

// Slowest orders sets by the slowest link between two of their devices: the larger, the faster. Sets of one device
// are all alike, and faster than any other.
func (s *Survey) Slowest(set []int) int {
	least := math.MaxInt
	for i, d := range set {
		for _, other := range set[:i] {
			least = min(least, s.Links[d][other].score())
		}
	}
	return least
}

// Of returns the survey of some of the devices, in the order given.
func (s *Survey) Of(devices []int) Survey {
	out := Survey{Driver: s.Driver}
	for _, i := range devices {
		var links []Link
		for _, k := range devices {
			links = append(links, s.Links[i][k])
		}
		out.Devices, out.Links = append(out.Devices, s.Devices[i]), append(out.Links, links)
	}
	return out
}

// closest grows a set from every device, each time by the one whose slowest link to the set is fastest, and
// returns the set of n with the fastest slowest link, then with the most of them.
func (s *Survey) closest(among []int, n int) []int {
	var best []int
	bestLeast, bestSum := -1, -1
	for _, seed := range among {
		set := []int{seed}
		least, sum := 1<<30, 0
		for len(set) < n {
			next, nextLeast, nextSum := -1, -1, -1
			for _, d := range among {
				if slices.Contains(set, d) {
					continue
				}
				if l, t := s.slowestLink(d, set); l > nextLeast || l == nextLeast && t > nextSum {
					next, nextLeast, nextSum = d, l, t
				}
			}
			set = append(set, next)
			least, sum = min(least, nextLeast), sum+nextSum
		}
		if least > bestLeast || least == bestLeast && sum > bestSum {
			best, bestLeast, bestSum = set, least, sum
		}
	}
	slices.Sort(best)
	return best
}

// slowestLink returns the slowest link from d to the set and the sum of all, as scores.
func (s *Survey) slowestLink(d int, set []int) (least, sum int) {
	least = 1 << 30
	for _, other := range set {
		score := s.Links[d][other].score()
		least, sum = min(least, score), sum+score
	}
	return least, sum
}

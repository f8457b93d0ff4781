package nvml

import (
	"maps"
	"math"
	"slices"
)

// Islands returns the island of each device, counted from 0. Devices that NVLink joins, directly or over others, form one
// island. So do remaining devices that access each other's memory over PCIe. An instance of a divided GPU has no peers
// and is an island of its own.
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

// spread assigns island number to device i and to all devices joined with it.
func (s *Survey) spread(i, number int, out []int, joined func(Link) bool) {
	out[i] = number
	for k := range s.Devices {
		if out[k] == Unknown && joined(s.Links[i][k]) {
			s.spread(k, number, out, joined)
		}
	}
}

// Choose returns n of the free devices with the fastest links, in ascending order, or all if fewer are free.
// It prefers the smallest sufficient island, so that large sets find whole islands later.
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

// Slowest returns a score of the slowest link between two devices of a set; larger is faster. Sets of one device
// have the largest score.
func (s *Survey) Slowest(set []int) int {
	least := math.MaxInt
	for i, d := range set {
		for _, other := range set[:i] {
			least = min(least, s.Links[d][other].score())
		}
	}
	return least
}

// Of returns the survey of some devices, in the order given.
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

// closest returns n devices with fast links. From every device it grows a set greedily: each time it adds the device
// whose slowest link to the set is fastest. It returns the set with the best slowest link; ties go to the larger sum of scores.
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

// slowestLink returns the smallest score of d's links to the set, and the sum of their scores.
func (s *Survey) slowestLink(d int, set []int) (least, sum int) {
	least = 1 << 30
	for _, other := range set {
		score := s.Links[d][other].score()
		least, sum = min(least, score), sum+score
	}
	return least, sum
}

package layout

import "latentbeam/stages/cost"

// onGrid is Cheapest for ranks of several devices. A rank's speed is the number of its devices times the slowest one's, less
// the idle time of a pipeline that holds too little. Tensor parallelism adds the exchange of the sums of a layer, in fp32: they
// pass through all ranks and return to all.
func (s sharing) onGrid(k int, devices []DeviceModel) (Forward, error) {
	g := s.Grid
	s.Grid.Tensor, s.Grid.Pipeline = 1, 1
	together := make([]DeviceModel, g.Sequence)
	for r, d := range devices {
		at, _, _ := g.Place(r)
		d.Rate *= float64(g.Tensor) * s.busy(g, k)
		if t := &together[at]; t.Rate == 0 || d.Rate < t.Rate {
			*t = d
		}
	}
	f, err := Cheapest(cost.Split(s), k, together)
	if err != nil {
		return f, err
	}
	bandwidth, latency := wire(devices)
	slots := 0
	for r := range together {
		slots = max(slots, f.Plan.ColumnSlots(r))
	}
	tokens := int64(slots) * int64(s.Shape.Frames)
	width := int64(s.Shape.Width())
	sums := int64(s.Pairs*s.Sums) * int64(g.Tensor-1) * 4 * tokens * width // from the last rank to all others
	onward := int64(min(1, g.Pipeline-1)) * int64(s.Bytes) * tokens * width
	f.Sent += sums + onward
	f.AllSent += 2*sums*int64(g.Sequence) + int64(g.Pipeline-1)*int64(g.Sequence*g.Tensor)*onward
	if g.Tensor > 1 {
		f.Wire += 2*float64(sums)/bandwidth + float64(s.Pairs*s.Sums*sumExchanges*g.Tensor)*latency
	}
	f.Wire += float64(onward)/bandwidth + float64(g.Pipeline-1)*latency
	return f, nil
}

// busy returns how many stages of a pipeline work at a time on k elements. A step has one slot for each group of elements, as
// long as the largest group takes, and at least one for each stage. If branches travel separately, it has one slot for each
// row, and the first branch of an element waits until its last one is back.
func (s sharing) busy(g cost.Grid, k int) float64 {
	branches := s.Shape.Batch
	if g.Apart(k) {
		return float64(g.Pipeline*k*branches) / float64(max(g.Pipeline+branches-1, k*branches))
	}
	groups := g.Groups(k)
	return float64(g.Pipeline*k) / float64(max(g.Pipeline, groups)*((k+groups-1)/groups))
}

// sumExchanges is the number of exchanges for each rank that a sum passes (weights.TensorParallel).
const sumExchanges = 5

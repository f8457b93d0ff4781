package weights

import (
	"latentbeam/kernels"
	"latentbeam/stages"
	"latentbeam/stages/cost"
	"latentbeam/stages/layout"
)

// Sharded is a Component whose weights can be split over the devices of a set. A stage that embeds it spreads its batches over
// them.
type Sharded[C, M any] struct {
	*Component[C, M]
	// Tensor and Pipeline are the numbers of devices over which heads and columns, and blocks, are split; 0: not decided.
	Tensor, Pipeline int
}

// Over returns the component with the options tp_size and pp_size. tensor is limited by the number of parts in sums over heads,
// pipeline by the number of blocks.
func (c *Component[C, M]) Over(tensor, pipeline, heads, blocks int) (Sharded[C, M], error) {
	s := Sharded[C, M]{c, tensor, pipeline}
	if most := len(layout.SumParts(heads)); tensor > most {
		return s, stages.Errorf("tp_size", "tp_size is %d: the %d heads of this model can be split over 1 to %d devices",
			tensor, heads, most)
	}
	if pipeline > blocks {
		return s, stages.Errorf("pp_size", "pp_size is %d: the %d blocks of this model can be split over 1 to %d devices",
			pipeline, blocks, blocks)
	}
	return s, nil
}

// Loading says how weights are loaded to devices, whole or split.
func (s *Sharded[C, M]) Loading() *stages.Loading {
	l := s.Component.Loading()
	l.Shards, l.LoadShard, l.Hold = s.Shards, s.LoadShard, s.Hold
	return l
}

// Cut returns the grid of devices that together have the weights once.
func (s *Sharded[C, M]) Cut() cost.Grid {
	return cost.Grid{Sequence: 1, Tensor: max(1, s.Tensor), Pipeline: max(1, s.Pipeline)}
}

// Shards returns the number of these devices.
func (s *Sharded[C, M]) Shards() int { return s.Cut().Shards() }

// Hold sets the placement of the weights in memory.
func (s *Sharded[C, M]) Hold(h cost.Placement) error {
	s.Tensor, s.Pipeline = h.Grid.Tensor, h.Grid.Pipeline
	want := placement{streamed: h.Streamed, runs: h.Runs}
	if h.Streamed {
		want.stay = h.Stay
	}
	s.setPlacement(want)
	return nil
}

// LoadShard loads a part of the weights to a device.
func (s *Sharded[C, M]) LoadShard(dev kernels.Backend, shard int) error {
	_, tensor, pipeline := s.Cut().Place(shard)
	_, err := s.shard(dev, Shard{Cut{tensor, s.Cut().Tensor}, PipelineStage{Rank: pipeline, Ways: s.Cut().Pipeline}})
	return err
}

// Weigh returns the estimate of the weights, loaded as dt, for plans.
func (s *Sharded[C, M]) Weigh(dt kernels.DType) (c cost.Estimate) {
	c.Weights, c.Parts = s.Bytes(dt)
	c.Grid = cost.Grid{Sequence: 1, Tensor: s.Tensor, Pipeline: s.Pipeline}
	c.Shards = s.ShardBytes(dt, s.Cut())
	return c
}

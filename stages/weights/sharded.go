package weights

import (
	"latentbeam/kernels"
	"latentbeam/stages"
	"latentbeam/stages/cost"
	"latentbeam/stages/layout"
)

// Sharded is a Component whose weights can be cut over the devices of a set. A stage that embeds it
// spreads its batches over them.
type Sharded[C, M any] struct {
	*Component[C, M]
	// Tensor and Pipeline are over how many devices heads and columns, and blocks, are cut; 0: that is open.
	Tensor, Pipeline int
}

// Over returns the component to be cut over so many devices, the options tp_size and pp_size: at most as many as its
// sums over heads have parts, and as it has blocks.
func (c *Component[C, M]) Over(tensor, pipeline, heads, blocks int) (Sharded[C, M], error) {
	s := Sharded[C, M]{c, tensor, pipeline}
	if most := len(layout.SumParts(heads)); tensor > most {
		return s, stages.Errorf("tp_size", "tp_size is %d: the %d heads of this model are cut over 1 to %d devices",
			tensor, heads, most)
	}
	if pipeline > blocks {
		return s, stages.Errorf("pp_size", "pp_size is %d: the %d blocks of this model are cut over 1 to %d devices",
			pipeline, blocks, blocks)
	}
	return s, nil
}

// Loading is how the weights come to devices, whole or cut.
func (s *Sharded[C, M]) Loading() *stages.Loading {
	l := s.Component.Loading()
	l.Shards, l.LoadShard, l.Hold = s.Shards, s.LoadShard, s.Hold
	return l
}

// Cut is the grid of devices that have the weights once.
func (s *Sharded[C, M]) Cut() cost.Grid {
	return cost.Grid{Sequence: 1, Tensor: max(1, s.Tensor), Pipeline: max(1, s.Pipeline)}
}

// Shards is how many these are.
func (s *Sharded[C, M]) Shards() int { return s.Cut().Shards() }

// Hold takes over how the weights lie in memory.
func (s *Sharded[C, M]) Hold(h cost.Held) error {
	s.Tensor, s.Pipeline = h.Grid.Tensor, h.Grid.Pipeline
	want := held{streamed: h.Streamed, runs: h.Runs}
	if h.Streamed {
		want.stay = h.Stay
	}
	s.lay(want)
	return nil
}

// LoadShard brings a part of the weights to a device.
func (s *Sharded[C, M]) LoadShard(dev kernels.Backend, shard int) error {
	_, tensor, pipeline := s.Cut().Place(shard)
	_, err := s.shard(dev, Shard{Cut{tensor, s.Cut().Tensor}, PipelineStage{Rank: pipeline, Ways: s.Cut().Pipeline}})
	return err
}

// Weigh returns what a plan is told of the weights, loaded as dt.
func (s *Sharded[C, M]) Weigh(dt kernels.DType) (c cost.Estimate) {
	c.Weights, c.Parts = s.Bytes(dt)
	c.Grid = cost.Grid{Sequence: 1, Tensor: s.Tensor, Pipeline: s.Pipeline}
	c.Shards = s.ShardBytes(dt, s.Cut())
	return c
}

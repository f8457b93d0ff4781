package weights

import (
	"slices"

	"latentbeam/kernels"
	"latentbeam/stages/cost"
)

// Bytes returns the size of the weights on a device when they are loaded as dt: the total, and the parts, first the weights
// that belong to no block, then each block. Values are never widened. Tensors of the file that the model does not use are not
// counted.
func (c *Component[C, M]) Bytes(dt kernels.DType) (all int64, parts []int64) {
	parts = c.bytesOf(dt, Shard{})
	for _, n := range parts {
		all += n
	}
	return all, parts
}

// ShardBytes returns the parts of each device when the weights are split over devices: the weights that belong to no block,
// then the device's own blocks. It returns nil if the weights are not split.
func (c *Component[C, M]) ShardBytes(dt kernels.DType, g cost.Grid) (shards [][]int64) {
	if g.Shards() <= 1 {
		return nil
	}
	g.Sequence = 1
	for i := range g.Shards() {
		_, tensor, pipeline := g.Place(i)
		parts := c.bytesOf(dt, Shard{Cut{tensor, g.Tensor}, PipelineStage{Rank: pipeline, Ways: g.Pipeline}})
		own := slices.DeleteFunc(parts[1:], func(n int64) bool { return n == 0 })
		shards = append(shards, parts[:1+len(own)])
	}
	return shards
}

// bytesOf returns the parts of a shard: the weights that belong to no block, then the blocks.
func (c *Component[C, M]) bytesOf(dt kernels.DType, shard Shard) []int64 {
	w := Outline(c.weights.Infos()).Cut(shard.Cut).Stage(shard.Stage)
	_, _ = c.load(c.Config, w) // Load reports what does not fit
	parts := []int64{0}
	for name, block := range w.blocks {
		t, _ := c.weights.Tensor(name)
		n := int64(w.sizes[name])
		if stored, known := kernels.DTypes[t.Type()]; known {
			size := min(dt.Size(), stored.Size())
			if c.added[name] != nil { // rounded from fp32
				size = dt.Size()
			}
			if w.rounded[name] { // packed as bytes; the file's pages can be released after reading
				own := size
				if size = 1; c.added[name] != nil || converted(stored, dt) {
					size += own
				}
			}
			n *= int64(size)
		}
		for len(parts) <= block {
			parts = append(parts, 0)
		}
		parts[block] += n
	}
	return parts
}

// converted reports whether a tensor is rounded when it is loaded as dt.
func converted(stored, dt kernels.DType) bool { return dt != kernels.F32 && dt != stored }

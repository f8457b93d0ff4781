package shares

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"latentbeam/internal/cluster"
	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/kernels/kerneltest"
	"latentbeam/stages"
	"latentbeam/stages/diffuse/dit"
	"latentbeam/stages/diffuse/sampler"
	"latentbeam/stages/nn"
	"latentbeam/stages/nn/nntest"
	"latentbeam/stages/sequence"
)

// echo is a network that predicts its latents, as many times as the number of the branch says, counted from 1.
type echo struct {
	be   kernels.Backend
	rows *dit.Rows
}

func (echo) Prepare(be kernels.Backend, rows *dit.Rows) (dit.Batch, error) {
	return echo{be, rows}, nil
}

func (e echo) Embed(_ int, x, vectors kernels.Tensor) {
	shape := slices.Clone(vectors.Shape[:3])
	v := vectors.Reshape(append(shape, 2, 4)...).Permute(0, 1, 2, 4, 3) // channel fastest, as predictions have it
	e.be.Copy(x.Reshape(append(shape, 4, 2)...), v)
}

func (e echo) Advance(xs []kernels.Tensor, _ dit.Instant, _ bool) ([]kernels.Tensor, error) {
	for i, x := range xs {
		for n := range x.Dim(0) {
			row := x.Narrow(0, n, 1)
			times := e.be.Alloc(kernels.F32, 1, 1, 1, 1)
			e.be.Upload(times, []float32{float32(1 + e.rows.Rows[e.rows.Parts[i].Rows.Start+n].Branch)})
			e.be.Binary(row, row, times.Expand(row.Shape...), kernels.Mul)
		}
	}
	return xs, nil
}

// TestShares: for every way in which ranks share a batch, with or without a box, with branches together or one by one, the
// ranks have every latent exactly once. Each rank gets the predictions of its own latents, in every branch, and the moments
// of whole elements.
func TestShares(t *testing.T) {
	size := dit.LatentSize{T: 3, H: 5, W: 6}
	const elements = 3
	var full [elements][]float32
	for i := range full {
		full[i] = nntest.Hash(fmt.Sprint("latents", i), 1, 2, size.Len())
	}
	for _, box := range []dit.LatentSize{{}, {T: 4, H: 8, W: 10}} {
		for branches := 1; branches <= 3; branches++ {
			for _, speeds := range [][]float64{{1}, {1, 1}, {1, 0.3, 2}, sequence.Equal(7), sequence.Equal(40)} {
				for _, partition := range []sequence.Partition{sequence.Uneven, sequence.Pad} {
					d := &dit.Description{Channels: 2, OutChannels: 2, Patch: nn.Patch{1, 2, 2}, Hidden: 8, Heads: 2, Box: box}
					b := &Batch{Description: d, Size: size, Branches: branches}
					for i := range elements * branches {
						b.Rows = append(b.Rows, dit.BatchRow{Element: &stages.Element{}, Branch: i % branches})
					}
					grid := size.In(box)
					frames, rows, cols := d.Patch.Grid(grid.T, grid.H, grid.W)
					var err error
					b.Plan, err = sequence.New(sequence.Shape{Batch: len(b.Rows), Frames: frames, Positions: rows * cols, Heads: 2, HeadSize: 4},
						partition, speeds)
					if err != nil {
						t.Fatal(err)
					}
					run := func(ctx context.Context, _ int, tr kernels.Transport) error {
						be := kerneltest.Deferred(cpu.New(1))
						return checkShares(b, be, kernels.NewGroup(ctx, tr, be, time.Minute), full[:])
					}
					if err := kernels.RunRanks(t.Context(), cluster.Shared(len(speeds)), time.Second, run); err != nil {
						t.Errorf("box %v, %d branches, %v, %v: %v", box, branches, speeds, partition, err)
					}
				}
			}
		}
	}
}

// checkShares sends the latents of elements through one rank.
func checkShares(b *Batch, be kernels.Backend, g *kernels.Group, full [][]float32) error {
	r, err := b.NewRank(be, g, echo{})
	if err != nil {
		return err
	}
	var z, rows, want []float32
	var moments, whole [][]sampler.Moments
	for _, s := range r.Shares {
		own := make([]float32, s.Len(b.planes()))
		s.Pick(own, full[s.Element], b.planes())
		z = append(z, own...)
		all := momentsOf(full[s.Element], b.planes())
		var mine []sampler.Moments
		for _, p := range s.pixels {
			mine = append(mine, all[p])
		}
		moments, whole = append(moments, mine, slices.Clone(mine)), append(whole, all, all)
	}
	idle := len(z) == 0
	if idle {
		z = make([]float32, b.planes())
	}
	for branch := range b.Branches {
		rows = append(rows, z...)
		for _, v := range z {
			want = append(want, v*float32(1+branch))
		}
	}
	n := b.Branches * max(1, len(r.Shares))
	got, err := r.Evaluate(context.Background(), rows, make([]float32, n), nil)
	if err != nil {
		return err
	}
	if !idle && !slices.Equal(got, want) {
		return fmt.Errorf("rank %d gets other predictions than those of its shares", g.Rank())
	}
	if err := r.Moments(moments); err != nil {
		return err
	}
	for i := range whole {
		if !slices.Equal(moments[i], whole[i]) {
			return fmt.Errorf("rank %d gets other moments than those of whole elements", g.Rank())
		}
	}
	for _, everyone := range []bool{false, true} {
		all, err := r.Collect("latents", z, everyone)
		if err != nil {
			return err
		}
		if (all != nil) != (everyone || g.Rank() == 0) || all != nil && !slices.Equal(all, slices.Concat(full...)) {
			return fmt.Errorf("rank %d collects other latents", g.Rank())
		}
	}
	return nil
}

// momentsOf are numbers of every position that are no sums of fp32 values.
func momentsOf(full []float32, planes int) []sampler.Moments {
	out := make([]sampler.Moments, len(full)/planes)
	for i, v := range full {
		m := &out[i%len(out)]
		m.Sum, m.Squares = m.Sum+float64(v)/3, m.Squares+float64(v)*float64(v)/3
	}
	return out
}

package nn_test

import (
	"context"
	"math"
	"testing"
	"time"

	"latentbeam/internal/cluster"
	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/stages/nn"
	"latentbeam/stages/nn/nntest"
	"latentbeam/stages/sequence"
)

// windowRope are the angles of the tokens of a window.
func windowRope(be kernels.Backend, c sharedCase, win nn.Windows) nn.Rope {
	line := func(n int) []float32 { return nn.RopePositions(c.dt, nn.Span{Len: n}, 1) }
	freqs := nn.RopeFreqs(c.shape.HeadSize / 6)
	return nn.NewRope3D(be, c.dt, freqs, line(win.Rows), line(win.Cols), line(c.shape.Frames))
}

// TestAddWindowsShared: attention inside windows has the bits of one rank, wherever ranks divide the patches.
func TestAddWindowsShared(t *testing.T) {
	for _, grid := range [][2]int{{5, 7}, {4, 4}, {1, 9}, {7, 3}} {
		win := nn.Windows{Rows: 2, Cols: 3, Grid: grid}
		for ranks := 1; ranks <= 9; ranks++ {
			for _, p := range []sequence.Partition{sequence.Uneven, sequence.Pad} {
				c := sharedCase{partition: p, speeds: sequence.Equal(ranks), qkNorm: true, late: ranks%4 == 3,
					dt: kernels.DType(ranks % 2), shape: sequence.Shape{Batch: 1 + ranks%2, Frames: 3,
						Positions: grid[0] * grid[1], Heads: 2, HeadSize: 12, QueryTile: 1}}
				if n := differences(c.windowsShared(t, win), c.windowsAlone(t, win)); n > 0 {
					t.Errorf("%v, grid %v: %d values differ from one rank's", c, grid, n)
				}
			}
		}
	}
}

func (c sharedCase) windowsAlone(t *testing.T, win nn.Windows) []float32 {
	be := cpu.New(1)
	a, _ := c.layer(t, be)
	s := c.shape
	stream := upload(be, c.dt, c.values("stream"), s.Batch, s.Frames, s.Positions, s.Width())
	x := upload(be, c.dt, c.values("x"), stream.Shape...)
	gate := upload(be, c.dt, c.values("gate"), stream.Shape...)
	a.AddTemporal(be, stream, x, gate, windowRope(be, c, win), win)
	return nntest.Values(t, be, stream)
}

func (c sharedCase) windowsShared(t *testing.T, win nn.Windows) []float32 {
	t.Helper()
	plan, err := sequence.New(c.shape, c.partition, c.speeds)
	if err != nil {
		t.Fatal(err)
	}
	result := make([]float32, len(c.values("x")))
	run := func(ctx context.Context, _ int, tr kernels.Transport) error {
		be := c.backend()
		defer be.Scope()()
		split := nn.NewSplit(plan, kernels.NewGroup(ctx, tr, be, time.Minute))
		split.Padding = float32(math.NaN())
		a, _ := c.layer(t, be)
		var streams, xs, gates []kernels.Tensor
		for _, p := range split.Parts() {
			streams = append(streams, c.part(be, split, p, c.values("stream")))
			xs = append(xs, c.part(be, split, p, c.values("x")))
			gates = append(gates, c.part(be, split, p, c.values("gate")))
		}
		err := a.AddWindowsShared(be, split, c.dt, streams, xs, gates, windowRope(be, c, win), win)
		if err != nil {
			return err
		}
		for i, p := range split.Parts() {
			got := make([]float32, streams[i].Len())
			if err := be.Download(got, streams[i]); err != nil {
				return err
			}
			c.eachToken(p, func(global, local int) {
				copy(result[global*c.shape.Width():][:c.shape.Width()], got[local*c.shape.Width():])
			})
		}
		return nil
	}
	if err := kernels.RunRanks(t.Context(), cluster.Shared(plan.Ranks), time.Second, run); err != nil {
		t.Fatalf("%v: %v", c, err)
	}
	return result
}

package runpage

import (
	"slices"
	"sync"
	"time"

	"latentbeam/internal/watch/board"
)

// maxCells bounds the pairs that a tally keeps apart. What comes later counts with otherCell.
const maxCells = 256

// otherCell stands for shapes and devices beyond maxCells.
const otherCell = "others"

// Cell is what a stage did for one shape, or on one device.
type Cell struct {
	Stage, Of string // Of: shape or device
	Busy      time.Duration
	Rows      int
	Batches   int
	Memory    int64 // bytes of tensors of the largest batch on one device; 0: not known
}

// Tally adds up where a run's time goes. Its memory is bounded. It is safe for concurrent use.
type Tally struct {
	mu      sync.Mutex
	shapes  cells
	devices cells
	waits   time.Duration
}

type cells struct {
	at   map[[2]string]int
	list []Cell
}

// Sink takes the spans of a run's board.
func (t *Tally) Sink() board.Sink { return board.Sink{Take: t.record} }

func (t *Tally) record(s board.Span) {
	took := s.End.Sub(s.Begin)
	t.mu.Lock()
	defer t.mu.Unlock()
	switch s.Kind {
	case board.Wait:
		t.waits += took
	case board.Work:
		of := t.shapes.add(s.Stage, s.Shape, took*time.Duration(len(s.Devices)), s.Count)
		of.Memory = max(of.Memory, slices.Max(append(s.Memory, 0)))
		for i, d := range s.Devices {
			of := t.devices.add(s.Stage, d, took, s.Count)
			if i < len(s.Memory) {
				of.Memory = max(of.Memory, s.Memory[i])
			}
		}
	}
}

func (c *cells) add(stage, of string, busy time.Duration, rows int) *Cell {
	key := [2]string{stage, of}
	i, known := c.at[key]
	if !known {
		if len(c.list) >= maxCells {
			key[1] = otherCell
			i, known = c.at[key]
		}
		if !known {
			if c.at == nil {
				c.at = map[[2]string]int{}
			}
			i = len(c.list)
			c.at[key] = i
			c.list = append(c.list, Cell{Stage: stage, Of: key[1]})
		}
	}
	cell := &c.list[i]
	cell.Busy, cell.Rows, cell.Batches = cell.Busy+busy, cell.Rows+rows, cell.Batches+1
	return cell
}

// Cells returns what there is so far: device time and memory by stage and shape, the same by stage and device, and how
// long batches waited for devices.
func (t *Tally) Cells() (shapes, devices []Cell, waits time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]Cell(nil), t.shapes.list...), append([]Cell(nil), t.devices.list...), t.waits
}

package runpage

import (
	"slices"
	"sync"
	"time"

	"latentbeam/internal/watch/board"
)

// maxCells limits the pairs that a tally counts separately. Further shapes and devices are counted as otherCell.
const maxCells = 256

// otherCell is the name for further shapes and devices.
const otherCell = "others"

// Cell is the work of a stage for one shape or on one device.
type Cell struct {
	Stage, Of string // Of is a shape or a device
	Busy      time.Duration
	Rows      int
	Batches   int
	Memory    int64 // peak bytes of a batch's tensors on one device; 0: not known
}

// Tally sums the times of a run's spans. Its memory is limited. It is safe for concurrent use.
type Tally struct {
	mu      sync.Mutex
	shapes  cells
	devices cells
	waits   time.Duration
}

// cells is a list of cells with an index.
type cells struct {
	at   map[[2]string]int // index in list, by stage and shape or device
	list []Cell
}

// Sink returns a sink that adds spans to the tally.
func (t *Tally) Sink() board.Sink { return board.Sink{Record: t.record} }

// record adds a span.
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

// add adds a batch to its cell.
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

// Cells returns the sums so far: device time and memory by stage and shape, the same by stage and device, and the time that
// batches waited for devices.
func (t *Tally) Cells() (shapes, devices []Cell, waits time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]Cell(nil), t.shapes.list...), append([]Cell(nil), t.devices.list...), t.waits
}

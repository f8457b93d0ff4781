package host

import (
	"cmp"
	"fmt"
	"slices"

	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/cost"
	"latentbeam/stages/layout"
)

// Arrange decides how the weights are placed on the devices, for a job of this many elements with rows like these. Weights of
// other jobs stay where they are. Arrange then subtracts the weights from the memory for batches.
func (h *Stages) Arrange(rows []schemas.PromptRow, elements int) error {
	d := h.devices
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.weights, h)
	others := d.reserve()
	devices := slices.Clone(Known(d))
	if len(devices) == 0 {
		return nil // all devices are on other hosts
	}
	for i := range devices {
		if !devices[i].Mapped { // the limit of mapped devices excludes the weights of other jobs already
			devices[i].Memory -= others
		}
	}
	held, over, err := h.arrange(rows, elements, devices)
	if err != nil {
		return err
	}
	if h.held, h.over = held, over; over == 0 { // otherwise the system pages the weights
		d.weights[h] = sizeOf(held)
		d.reserve()
	}
	return nil
}

// ArrangeDefaults is Arrange for rows like the job's defaults, before any row is known.
func (h *Stages) ArrangeDefaults() error { return h.Arrange([]schemas.PromptRow{h.Defaults}, 0) }

// Free streams all but stay blocks of a step, and gives their memory to batches. row is one of the rows that the step
// computes. It reports whether memory was freed.
func (h *Stages) Free(step int, row schemas.PromptRow, stay int) bool {
	loading := h.Steps[step].Capabilities().Loading
	if loading == nil || loading.Staying == nil {
		return false
	}
	h.devices.mu.Lock() // one call at a time
	defer h.devices.mu.Unlock()
	if now, _ := loading.Staying(); stay >= now {
		return false
	}
	loading.Stream(stay)
	return h.freed(step, row, stay)
}

// Freed notes a step whose resident blocks now stream, so that batches get their room.
func (h *Stages) Freed(step int, row schemas.PromptRow, stay int) {
	h.devices.mu.Lock()
	defer h.devices.mu.Unlock()
	h.freed(step, row, stay)
}

func (h *Stages) freed(step int, row schemas.PromptRow, stay int) bool {
	d := h.devices
	costs, err := Costs(h.Steps, row)
	if err != nil || d.weights[h] == 0 || step >= len(h.held) { // the weights were not reserved
		return false
	}
	h.held[step] = layout.Passing(h.held[step], costs[step], stay)
	d.weights[h] = sizeOf(h.held)
	d.reserve()
	return true
}

// arrange decides how the weights of the steps are placed on these devices, and passes the decision to the steps, so that they
// load no more than that. over is the number of bytes by which weights and the smallest of the rows exceed the memory of the
// devices. A row that is too large is ignored here and fails later by itself.
func (h *Stages) arrange(rows []schemas.PromptRow, elements int, devices []layout.DeviceModel) (
	held []cost.Placement, over int64, err error) {
	var kinds [][]cost.Estimate // by kind of row, largest need first
	for _, row := range rows {
		if costs, err := Costs(h.Steps, row); err == nil { // otherwise rows of this kind fail later
			useMeasured(costs, row, h.Facts)
			kinds = append(kinds, costs)
		}
	}
	if len(kinds) == 0 {
		return nil, 0, nil // no estimate: the options decide where weights are
	}
	slices.SortStableFunc(kinds, func(a, b []cost.Estimate) int { return -cmp.Compare(needOf(a), needOf(b)) })
	for i := range kinds {
		if held, over = layout.Arrange(largest(kinds[i:]), devices, elements); over == 0 {
			break
		}
	}
	for i, s := range h.Steps {
		if l := s.Capabilities().Loading; l != nil && l.Hold != nil {
			if err := l.Hold(held[i]); err != nil {
				return nil, 0, h.Config.Errorf(h.place(i), "%s: %v", s.Name, err)
			}
		}
	}
	return held, over, nil
}

// needOf returns the memory for one element in the stage that needs most.
func needOf(costs []cost.Estimate) (most int64) {
	for _, s := range costs {
		if n, err := s.Need(1); err == nil {
			most = max(most, n)
		}
	}
	return most
}

// largest returns the estimates of the first kind, with the largest memory need of all kinds.
func largest(kinds [][]cost.Estimate) []cost.Estimate {
	out := slices.Clone(kinds[0])
	for i := range out {
		out[i].Need = func(n int) (most int64, err error) {
			for _, costs := range kinds {
				bytes, err := costs[i].Need(n)
				if err != nil {
					return 0, err
				}
				most = max(most, bytes)
			}
			return most, nil
		}
	}
	return out
}

// Costs returns the cost estimate of every step for rows like row.
func Costs(steps []stages.Step, row schemas.PromptRow) ([]cost.Estimate, error) {
	var out []cost.Estimate
	for _, step := range steps {
		var cost cost.Estimate
		if costOf := step.Capabilities().Cost; costOf != nil {
			var err error
			if cost, err = costOf(&row); err != nil {
				return nil, fmt.Errorf("plan %s: %w", step.Name, err)
			}
		}
		known := map[int]int64{}
		cost.Name = step.Name
		cost.Need = func(n int) (bytes int64, err error) {
			if bytes, ok := known[n]; ok {
				return bytes, nil
			}
			known[n], err = step.Need(&row, n)
			return known[n], err
		}
		out = append(out, cost)
	}
	return out, nil
}

// ExpectedRows describes the rows of a job to other hosts: one row of each shape, and the total number of rows.
type ExpectedRows struct {
	Rows     []schemas.PromptRow `json:"rows"`
	Elements int                 `json:"elements"`
}

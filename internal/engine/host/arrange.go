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

// Arrange decides how the weights lie when so many elements of rows like these are to be computed, beside those of other
// jobs, and takes them off the memory that there is for batches.
func (h *Stages) Arrange(rows []schemas.PromptRow, elements int) error {
	d := h.devices
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.weights, h)
	others := d.reserve()
	devices := slices.Clone(Known(d))
	if len(devices) == 0 {
		return nil // all are on other hosts
	}
	for i := range devices {
		if !devices[i].Mapped { // of the others the offer knows already
			devices[i].Memory -= others
		}
	}
	held, over, err := h.arrange(rows, elements, devices)
	if err != nil {
		return err
	}
	if h.held, h.over = held, over; over == 0 { // else the system has to do without what they take
		d.weights[h] = sizeOf(held)
		d.reserve()
	}
	return nil
}

// ArrangeDefaults is Arrange for rows like the job's defaults, before any row is known.
func (h *Stages) ArrangeDefaults() error { return h.Arrange([]schemas.PromptRow{h.Defaults}, 0) }

// Free lets blocks of a step pass through memory which were to stay, and offers their room to batches; row is one of
// those that the step computes. It reports whether there is more room.
func (h *Stages) Free(step int, row schemas.PromptRow, stay int) bool {
	loading := h.Steps[step].Capabilities().Loading
	if loading == nil || loading.Staying == nil {
		return false
	}
	h.devices.mu.Lock() // one at a time
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
	if err != nil || d.weights[h] == 0 || step >= len(h.held) { // the weights had no room in any case
		return false
	}
	h.held[step] = layout.Passing(h.held[step], costs[step], stay)
	d.weights[h] = sizeOf(h.held)
	d.reserve()
	return true
}

// arrange decides how the weights of the steps lie on these devices, when so many elements of rows like these are to be
// computed, and tells the steps, so that they load no more. over is what they take beyond the memory of the devices,
// beside the smallest of the rows: a row that is too large for it all fails by itself and decides nothing.
func (h *Stages) arrange(rows []schemas.PromptRow, elements int, devices []layout.DeviceModel) (
	held []cost.Held, over int64, err error) {
	var kinds [][]cost.Estimate // of each kind of rows, what needs most first
	for _, row := range rows {
		if costs, err := Costs(h.Steps, row); err == nil { // else rows of the kind fail by themselves
			remembered(costs, row, h.Facts)
			kinds = append(kinds, costs)
		}
	}
	if len(kinds) == 0 {
		return nil, 0, nil // nothing is known of such rows: weights lie as the options say
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

// needOf is what the hungriest stage needs for one element.
func needOf(costs []cost.Estimate) (most int64) {
	for _, s := range costs {
		if n, err := s.Need(1); err == nil {
			most = max(most, n)
		}
	}
	return most
}

// largest returns the stages as rows of all kinds together need them: what the first kind costs, and as much memory as
// any.
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

// Costs asks every step what rows like row cost.
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

// ExpectedRows is what other hosts are told of the rows of a job: one of each shape, and how many there are in all.
type ExpectedRows struct {
	Rows     []schemas.PromptRow `json:"rows"`
	Elements int                 `json:"elements"`
}

package schedule

import (
	"math"
	"sync"
	"time"

	"latentbeam/internal/devices"
	"latentbeam/stages/cost"
	"latentbeam/stages/layout"
)

// forecast predicts how long batches take, from the stages' cost estimates and from times measured in this run. Predictions
// only decide which devices a batch gets and how long ranks wait for each other. So a wrong prediction costs time and
// never changes results.
type forecast struct {
	*Predictions
	mu   sync.Mutex
	few  map[costKey]int     // smallest number of elements that did not fit although predicted to fit
	pace map[costKey]float64 // measured seconds for each predicted second
	last map[int]float64     // pace of the last batch, by stage
}

// open starts a run with these predictions and no measured times.
func (f *forecast) open(p *Predictions) {
	f.Predictions = p
	f.few, f.pace, f.last = map[costKey]int{}, map[costKey]float64{}, map[int]float64{}
}

// seconds predicts the time of k elements on a set of devices, scaled by the pace of earlier batches; 0: unknown.
func (f *forecast) seconds(key costKey, cost *cost.Estimate, k int, set []layout.DeviceModel) float64 {
	if cost == nil {
		return 0
	}
	model := f.Predictions.seconds(key, cost, k, set)
	f.mu.Lock()
	defer f.mu.Unlock()
	return model * f.paceOf(key)
}

// record records how long a batch took.
func (f *forecast) record(key costKey, cost *cost.Estimate, k int, set []layout.DeviceModel, took time.Duration) {
	if cost == nil {
		return
	}
	model := f.Predictions.seconds(key, cost, k, set)
	f.mu.Lock()
	defer f.mu.Unlock()
	if model > 0 && !math.IsInf(model, 0) {
		f.pace[key] = took.Seconds() / model
		f.last[key.stage] = f.pace[key]
	}
}

// measured reports whether batches of a stage have been timed.
func (f *forecast) measured(stage int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last[stage] > 0
}

// paceOf returns the measured pace for rows of this shape, else of the stage, else of the nearest earlier stage that was timed, else 1.
func (f *forecast) paceOf(key costKey) float64 {
	if p, ok := f.pace[key]; ok {
		return p
	}
	for stage := key.stage; stage >= 0; stage-- {
		if p, ok := f.last[stage]; ok {
			return p
		}
	}
	return 1
}

// most returns how many elements, up to limit, fit a set of n devices of the given memory.
func (f *forecast) most(key costKey, cost *cost.Estimate, memory int64, n, limit int) int {
	return f.fewer(key, f.Predictions.most(key, cost, memory, n, limit))
}

// fewer returns k, or the largest number below it that is not known to be too many.
func (f *forecast) fewer(key costKey, k int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if few := f.few[key]; few > 0 {
		k = min(k, few-1)
	}
	return k
}

// tooMany records that this many elements did not fit a set.
func (f *forecast) tooMany(key costKey, elements int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if few := f.few[key]; few == 0 || elements < few { // another batch may have lowered it further
		f.few[key] = elements
	}
}

// devicesOf returns the devices of a pool as the cost model describes them. If only their speeds are known, they count as
// shares of a processor, the fastest at the speed of the cost table.
func devicesOf(pool devices.Pool) []layout.DeviceModel {
	rates := ratesOf(pool)
	if known := pool.Capabilities().Layout; known != nil {
		if devices := known(); len(devices) == len(rates) {
			return devices
		}
	}
	return layout.Workers(rates)
}

// subset returns the devices with these numbers.
func subset(all []layout.DeviceModel, numbers []int) []layout.DeviceModel {
	out := make([]layout.DeviceModel, len(numbers))
	for i, n := range numbers {
		out[i] = all[n]
	}
	return out
}

package schedule

import (
	"math"
	"sync"
	"time"

	"latentbeam/internal/devices"
	"latentbeam/stages/cost"
	"latentbeam/stages/layout"
)

// forecast predicts how long batches take, from what the stages say they cost and how long others took in this run. It
// decides nothing but who gets which devices, and how long ranks wait for each other, so a wrong guess costs
// time and never bytes.
type forecast struct {
	*Predictions
	mu   sync.Mutex
	few  map[costKey]int     // how many elements fit, where fewer did than predicted
	pace map[costKey]float64 // measured seconds for each predicted second
	last map[int]float64     // by stage: the pace of its last batch
}

// open begins a run that knows these predictions.
func (f *forecast) open(p *Predictions) {
	f.Predictions = p
	f.few, f.pace, f.last = map[costKey]int{}, map[costKey]float64{}, map[int]float64{}
}

// seconds predicts k elements on a set of devices, by the pace of the batches so far; 0 where nothing is known.
func (f *forecast) seconds(key costKey, cost *cost.Estimate, k int, set []layout.DeviceModel) float64 {
	if cost == nil {
		return 0
	}
	model := f.Predictions.seconds(key, cost, k, set)
	f.mu.Lock()
	defer f.mu.Unlock()
	return model * f.paceOf(key)
}

// record notes how long a batch took.
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

// paceOf is the pace of rows like these, of the stage, or of the one before it that was timed.
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

// fewer is k, or a smaller number of elements where as many as k did not fit.
func (f *forecast) fewer(key costKey, k int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if few := f.few[key]; few > 0 {
		k = min(k, few-1)
	}
	return k
}

// tooMany notes that so many elements did not fit a set.
func (f *forecast) tooMany(key costKey, elements int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if few := f.few[key]; few == 0 || elements < few { // other batches may have come down further
		f.few[key] = elements
	}
}

// devicesOf returns the devices of a pool as the cost model knows them. Where only their speeds are known they count as
// workers of a processor, and the fastest of them as the one in the table.
func devicesOf(pool devices.Pool) []layout.DeviceModel {
	rates := ratesOf(pool)
	if known := pool.Capabilities().Layout; known != nil {
		if devices := known(); len(devices) == len(rates) {
			return devices
		}
	}
	return layout.Workers(rates)
}

// some returns those of the devices with these numbers.
func some(all []layout.DeviceModel, numbers []int) []layout.DeviceModel {
	out := make([]layout.DeviceModel, len(numbers))
	for i, n := range numbers {
		out[i] = all[n]
	}
	return out
}

package stages

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
)

// Measure is a set of readings that a stage computes which only measures (Spec.MeasuresOnly). Equal measures of equal results give equal
// readings.
type Measure struct {
	Name    string `json:"name"`              // such as "aesthetic_quality"
	Version int    `json:"version"`           // raised whenever the readings of equal results may change
	Options string `json:"options,omitempty"` // options that readings depend on, in canonical form; "": none
	Weights string `json:"weights,omitempty"` // digest of the learned weights, "" if there are none
	// Params are the columns that readings depend on besides the measured result.
	Params []Param `json:"params,omitempty"`
	// Readings lists the names of the readings; nil: they are not known in advance.
	Readings []string `json:"readings,omitempty"`
}

// ID returns a digest of the measure, without the names of its readings.
func (m Measure) ID() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %d %q %q %q", m.Name, m.Version, m.Options, m.Weights, m.Params))
	return hex.EncodeToString(sum[:])
}

// AddReadings records the readings of a measure, also if there are none. It does not modify the map that the element had.
func (e *Element) AddReadings(m Measure, readings map[string]string) {
	all := maps.Clone(e.Looked)
	if all == nil {
		all = map[string]map[string]string{}
	}
	all[m.ID()] = readings
	e.Looked = all
}

// LookFail records that a measure failed for the element. It does not modify the map that the element had.
func (e *Element) LookFail(m Measure, why *Failure) {
	all := maps.Clone(e.LookFailed)
	if all == nil {
		all = map[string]*Failure{}
	}
	all[m.ID()] = why
	e.LookFailed = all
}

// FirstLookFailure returns the failure of the first measure, by ID, that failed for the element; "": none did.
func (e *Element) FirstLookFailure() string {
	for _, id := range slices.Sorted(maps.Keys(e.LookFailed)) {
		return e.LookFailed[id].Error()
	}
	return ""
}

// Lacks reports whether the measure has not yet been computed for the element, in this run or an earlier one.
func (e *Element) Lacks(m Measure) bool {
	id := m.ID()
	_, has := e.Looked[id]
	return !has && e.LookFailed[id] == nil
}

// Reading returns the reading of this name, from a measure or another stage; "": there is none.
func (e *Element) Reading(name string) string { return e.AllReadings()[name] }

// AllReadings returns the element's readings together with the readings of its measures.
func (e *Element) AllReadings() map[string]string {
	all := maps.Clone(e.Readings)
	if all == nil {
		all = map[string]string{}
	}
	for _, id := range slices.Sorted(maps.Keys(e.Looked)) {
		maps.Copy(all, e.Looked[id])
	}
	return all
}

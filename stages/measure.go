package stages

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
)

// Measure is a kind of reading that a stage takes which only looks (Spec.Looks). What equal measures read off equal things is equal.
type Measure struct {
	Name    string `json:"name"`              // such as "aesthetic_quality"
	Version int    `json:"version"`           // raised whenever equal things may give other readings
	Options string `json:"options,omitempty"` // those that readings depend on, in canonical form; "": none
	Weights string `json:"weights,omitempty"` // names what was learned by content, "" where nothing was
	// Params are the columns that readings depend on beside the thing that is looked at.
	Params []Param `json:"params,omitempty"`
	// Readings are the names of what the measure reads; nil: nobody knows before.
	Readings []string `json:"readings,omitempty"`
}

// ID names all of the measure but the names of its readings.
func (m Measure) ID() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %d %q %q %q", m.Name, m.Version, m.Options, m.Weights, m.Params))
	return hex.EncodeToString(sum[:])
}

// Look notes what a measure reads off the element, also if that is nothing. The map that the element had is not changed.
func (e *Element) Look(m Measure, readings map[string]string) {
	all := maps.Clone(e.Looked)
	if all == nil {
		all = map[string]map[string]string{}
	}
	all[m.ID()] = readings
	e.Looked = all
}

// LookFail notes that a measure could not look at the element. The map that the element had is not changed.
func (e *Element) LookFail(m Measure, why *Failure) {
	all := maps.Clone(e.LookFailed)
	if all == nil {
		all = map[string]*Failure{}
	}
	all[m.ID()] = why
	e.LookFailed = all
}

// FirstLookFailure says why a measure could not look at the element, the first by its ID; "": all could.
func (e *Element) FirstLookFailure() string {
	for _, id := range slices.Sorted(maps.Keys(e.LookFailed)) {
		return e.LookFailed[id].Error()
	}
	return ""
}

// Lacks reports whether the measure has not looked at the element, in this run or an earlier one.
func (e *Element) Lacks(m Measure) bool {
	id := m.ID()
	_, has := e.Looked[id]
	return !has && e.LookFailed[id] == nil
}

// Reading returns what was read off the element under a name, by measures or other stages; "": nothing.
func (e *Element) Reading(name string) string { return e.AllReadings()[name] }

// AllReadings are the element's readings, those of measures included.
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

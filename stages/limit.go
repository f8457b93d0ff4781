package stages

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"latentbeam/schemas"
)

// Limit bounds a reading, both bounds included.
type Limit struct {
	Min *float64 `yaml:"min" json:"min,omitempty"`
	Max *float64 `yaml:"max" json:"max,omitempty"`
}

// Beyond says how a reading is beyond the limit, or "".
func (l Limit) Beyond(reading string) string {
	v, err := strconv.ParseFloat(reading, 64)
	switch {
	case reading == "":
		return "was not read"
	case err != nil:
		return fmt.Sprintf("is %q, which is no number", reading)
	case l.Min != nil && !(v >= *l.Min):
		return fmt.Sprintf("is %s, below the limit of %v", reading, *l.Min)
	case l.Max != nil && !(v <= *l.Max):
		return fmt.Sprintf("is %s, above the limit of %v", reading, *l.Max)
	}
	return ""
}

// Limits bound readings by name.
type Limits map[string]Limit

// Judge says which of a row's readings is beyond its limit, the first by name, or "".
func (all Limits) Judge(reading func(name string) string) string {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		text := reading(name)
		if text == "" && schemas.ZeroReading(name) {
			text = "0"
		}
		if why := all[name].Beyond(text); why != "" {
			return name + " " + why
		}
	}
	return ""
}

// Allow reports whether a row that an earlier Judge has left out for this reason has that reading within the limits now.
func (all Limits) Allow(why string) bool {
	name, rest, _ := strings.Cut(why, " ")
	limit, limited := all[name]
	if !limited {
		return true
	}
	value, found := strings.CutPrefix(rest, "is ")
	if !found {
		return false // it was not read
	}
	value, _, _ = strings.Cut(value, ", ")
	return limit.Beyond(strings.Trim(value, `"`)) == ""
}

package stages

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"latentbeam/schemas"
)

// Limit bounds a reading. Both bounds are inclusive.
type Limit struct {
	Min *float64 `yaml:"min" json:"min,omitempty"`
	Max *float64 `yaml:"max" json:"max,omitempty"`
}

// Beyond describes how a reading violates the limit, "" if it does not.
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

// Judge describes the first reading, by name, that violates its limit; "" if none does.
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

// Allow reports whether a row that Judge dropped earlier with the text why is within the limits now.
func (all Limits) Allow(why string) bool {
	name, rest, _ := strings.Cut(why, " ")
	limit, limited := all[name]
	if !limited {
		return true
	}
	value, found := strings.CutPrefix(rest, "is ")
	if !found {
		return false // it was not measured
	}
	value, _, _ = strings.Cut(value, ", ")
	return limit.Beyond(strings.Trim(value, `"`)) == ""
}

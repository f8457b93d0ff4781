package guard

import (
	"fmt"
	"strconv"
)

// limit bounds a reading.
type limit struct {
	Min *float64 `yaml:"min" json:"min,omitempty"`
	Max *float64 `yaml:"max" json:"max,omitempty"`
}

// beyond says how a reading is beyond the limit, or "".
func (l limit) beyond(reading string) string {
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

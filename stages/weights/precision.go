package weights

import (
	"fmt"
	"strings"

	"latentbeam/stages"
)

// precisionInt8 is the value of the option precision.
const precisionInt8 = "int8"

// Int8Loss is the loss of int8 in the stages that have it, together.
var Int8Loss = stages.Approximation{Option: "precision", Value: precisionInt8, Kept: 92, Of: 92, Page: "int8.md#loss"}

// ParsePrecision parses the option precision of a stage and reports whether products use 8-bit numbers.
func ParsePrecision(value string) (int8 bool, err error) {
	if value != "" && value != precisionInt8 {
		return false, stages.Errorf("precision", "precision is %q: give %s, or leave it out", value, precisionInt8)
	}
	return value == precisionInt8, nil
}

// Int8 returns the same tensors. If on is set, layers whose full names start with one of the prefixes use 8-bit products (see
// kernels.Epilogue.Int8). Other computations do not change.
func (w *Weights) Int8(on bool, prefixes ...string) *Weights {
	rounded := *w
	rounded.int8 = nil
	if on {
		rounded.int8 = prefixes
	}
	return &rounded
}

// Rounds reports whether the layer with the named weight uses 8-bit products.
func (w *Weights) Rounds(name string) bool {
	name = w.prefix + name
	for _, p := range w.int8 {
		if strings.HasPrefix(name, p) {
			w.rounded[name] = true
			if w.be != nil && !w.be.Capabilities().Int8 && w.failed == nil {
				w.failed = fmt.Errorf("precision: %s is supported only on processors, and %s is not a processor: leave precision out, or run the job on processors",
					precisionInt8, w.be.Device())
			}
			return true
		}
	}
	return false
}

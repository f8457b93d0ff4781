package stages

import (
	"latentbeam/internal/plan/layout"
	"latentbeam/schemas"
)

// Costed is what a Stage also is that can say what it costs, so that a layout of the devices can be chosen for
// it. `plan` prints it and `run` uses it.
type Costed interface {
	// Cost returns the weights and the work of one element like row, and how a set of devices can share it.
	// Name and Need are the caller's to fill in.
	Cost(row *schemas.PromptRow) (layout.Stage, error)
}

package pipelines

import (
	"latentbeam/internal/engine"
	"latentbeam/schemas"
	"latentbeam/stages"
)

// withPublished fills up the defaults with what the models of the stages were published with.
func withPublished(defaults schemas.PromptRow, steps []engine.Step) schemas.PromptRow {
	for _, s := range steps {
		if p, ok := s.Stage.(stages.Published); ok {
			defaults = defaults.WithDefaults(p.Published())
		}
	}
	return defaults
}

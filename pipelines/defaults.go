package pipelines

import (
	"latentbeam/schemas"
	"latentbeam/stages"
)

// withPublished fills up the defaults with what the models of the stages were published with.
func withPublished(defaults schemas.PromptRow, steps []stages.Step) schemas.PromptRow {
	for _, s := range steps {
		if published := s.Capabilities().Published; published != nil {
			defaults = defaults.WithDefaults(published())
		}
	}
	return defaults
}

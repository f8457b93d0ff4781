package pipelines

import (
	"fmt"

	"latentbeam/internal/config"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/transforms"
)

// checkWidths refuses a stage that wants more devices for a batch than there are.
func checkWidths(cfg *config.Config, steps []transforms.Step, defaults *schemas.PromptRow, devices int) error {
	for i, s := range steps {
		spreader, ok := s.Stage.(stages.Spreader)
		if !ok {
			continue
		}
		if n := spreader.Width(defaults); n > devices {
			return cfg.Errorf(fmt.Sprintf("stages.%d.sequence_parallel", i),
				"%s wants %d workers for a batch, the job has %d", s.Name, n, devices).
				WithFix("set resources.workers to %d or more, or sequence_parallel to auto", n)
		}
	}
	return nil
}

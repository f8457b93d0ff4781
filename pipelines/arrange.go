package pipelines

import (
	"fmt"

	"latentbeam/internal/config"
	"latentbeam/internal/plan"
	"latentbeam/internal/plan/layout"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/transforms"
)

// arrange decides how the weights of the steps lie on the devices of a process, for rows like the defaults, and
// tells the steps, so that they load no more; facts are what earlier runs learned of memory. over is what they take
// beyond the memory of its workers.
func arrange(cfg *config.Config, steps []transforms.Step, defaults schemas.PromptRow, devices []layout.Device,
	facts []transforms.MemoryFact) (held []layout.Held, over int64, err error) {
	costs, err := costsOf(steps, defaults)
	if err != nil {
		return nil, 0, nil // nothing is known of such rows: weights lie as the options say
	}
	remembered(costs, defaults, facts)
	held, over = layout.Arrange(costs, devices, 0)
	for i, s := range steps {
		if h, ok := s.Stage.(stages.Holder); ok {
			if err := h.Hold(held[i]); err != nil {
				return nil, 0, cfg.Errorf(fmt.Sprintf("stages.%d", i), "%s: %v", s.Name, err)
			}
		}
	}
	return held, over, nil
}

// arrange does so for this process, whose memory the job may have bounded.
func (j *Job) arrange(steps []transforms.Step, defaults *schemas.PromptRow) error {
	of := known(j.local)
	if len(of) == 0 {
		return nil // all are on other hosts
	}
	held, over, err := arrange(j.Config, steps, *defaults, of, j.facts)
	if over > 0 && j.Config.Given("resources.memory") {
		n := int64(len(of))
		return j.Config.Errorf("resources.memory", "the weights and rows of the default size need %s more than %d workers "+
			"may take, although blocks pass through memory where they can", plan.Bytes(over), n).
			WithFix("set resources.memory to %s or more", plan.Bytes(of[0].Memory+(over+n-1)/n))
	}
	j.held, j.over = held, over
	return err
}

// known returns what is known of devices without measuring them.
func known(devices stages.Picker) []layout.Device {
	if p, ok := devices.(interface{ Layout() []layout.Device }); ok {
		return p.Layout()
	}
	out := layout.Ranks(devices.Speeds())
	for i := range out {
		out[i].Memory, out[i].Mapped = devices.Memory().Limit, true
	}
	return out
}

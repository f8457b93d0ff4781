package host

import (
	"cmp"
	"strings"

	"latentbeam/internal/config"
	"latentbeam/internal/engine/keys"
	"latentbeam/schemas"
	"latentbeam/stages"
)

// withPublished fills missing defaults with the parameters that the stages' models were published with.
func withPublished(defaults schemas.PromptRow, steps []stages.Step) schemas.PromptRow {
	for _, s := range steps {
		if published := s.Capabilities().Published; published != nil {
			defaults = defaults.WithDefaults(published())
		}
	}
	return defaults
}

// defaultsOfRows returns the defaults of a row's missing parameters. If the job gives guidance_scale but no guidance_scale_2, its scale
// holds for both denoisers.
func defaultsOfRows(cfg *config.Config, model *stages.Model, steps []stages.Step) schemas.PromptRow {
	d := withPublished(defaultsOf(cfg, model), steps)
	if cfg.Defaults.GuidanceScale2 == nil && d.GuidanceScale2 != nil {
		d.GuidanceScale2 = cmp.Or(cfg.Defaults.Row().GuidedScale(), d.GuidanceScale2)
	}
	return d
}

// defaultsOf returns the defaults of the configuration, completed by the model's own.
func defaultsOf(cfg *config.Config, model *stages.Model) schemas.PromptRow {
	d := model.Index.Defaults
	row := cfg.Defaults.Row()
	row.DecodeErrors, row.HDR = cfg.Input.DecodeErrors, cfg.Input.HDR
	return row.WithDefaults(schemas.PromptRow{
		Height: d.Height, Width: d.Width, NumFrames: d.NumFrames, FPS: d.FPS,
		NumInferenceSteps: d.NumInferenceSteps, GuidanceScale: d.GuidanceScale,
		MaxSequenceLength: d.MaxSequenceLength,
	})
}

// CheckDefaults lets every stage check a row that has only defaults, so that an impossible size in
// the configuration is reported with its line before any work. If a wrong default does not come from the configuration,
// CheckDefaults tries the first row of the table, which may give the value itself. first returns that row, nil for an empty table,
// or the error of an input that cannot be opened, which CheckDefaults returns.
func (h *Stages) CheckDefaults(first func() (*schemas.PromptRow, error)) error {
	cfg := h.Config
	kind, _ := cfg.Input.Source()
	if kind != config.PromptInput && kind != config.MediaInput {
		return nil // the tables carry the parameters
	}
	defaults, err := h.Defaults.Sized(stages.NamingOf(h.Steps))
	if err != nil {
		return nil // half a size, which rows may complete
	}
	for _, s := range h.Steps {
		if err := s.Check(&defaults); err != nil {
			name, _, _ := strings.Cut(err.Error(), " ")
			if !cfg.Given("defaults." + name) {
				row, unread := first()
				if unread != nil {
					return unread
				}
				if h.completes(row) {
					return nil
				}
			}
			return cfg.Errorf("defaults."+name, "%s: %v", s.Name, err)
		}
	}
	if err := keys.SameLatents(h.Steps, &defaults); err != nil {
		return cfg.Errorf("model", "%v", err)
	}
	return nil
}

// completes reports whether a row gives every parameter that the defaults lack.
func (h *Stages) completes(row *schemas.PromptRow) bool {
	if row == nil {
		return false
	}
	full, err := row.WithDefaults(h.Defaults).Sized(stages.NamingOf(h.Steps))
	for i := 0; err == nil && i < len(h.Steps); i++ {
		err = h.Steps[i].Check(&full)
	}
	return err == nil
}

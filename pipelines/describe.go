package pipelines

import (
	"cmp"
	"encoding/json"

	"latentbeam/internal/config"
	"latentbeam/internal/media/resize"
	"latentbeam/internal/results/report"
	"latentbeam/stages"
)

// describe says in the metadata of tensor tables how tensors were made, as far as all rows have it in common.
func (j *Job) describe() {
	m := map[string]string{}
	put := func(key, value string) {
		if value != "" {
			m["latentbeam."+key] = value
		}
	}
	for _, s := range j.engine.Schedule.Steps {
		if s.Gives == stages.KindText {
			put("text_encoder_digest", s.Digest())
		}
		if s.Capabilities().LatentSpace == nil {
			continue
		}
		space := s.Capabilities().LatentSpace()
		put("vae_digest", space.Digest)
		put("posterior", space.Posterior)
		j.report.HalfLatents = space.DType == stages.BFloat16
		if len(space.Mean) > 0 {
			put(report.LatentsMean, numbers(space.Mean))
			put(report.LatentsStd, numbers(space.Std))
		}
	}
	if in := j.Config.Input; len(in.Media) > 0 {
		put("resize", cmp.Or(in.Resize, string(resize.Bicubic)))
		put("crop", cmp.Or(in.Crop, config.CropCenter))
		if !in.Cuts() {
			put("resize", "resize_crop") // of Open-Sora, see media.NewFitter
		}
	}
	j.report.TensorFacts = m
}

// numbers is a list of numbers in JSON.
func numbers(list []float64) string {
	text, err := json.Marshal(list)
	if err != nil {
		return "" // a configuration with such a number was refused
	}
	return string(text)
}

// selects says which rows tables mark, nil for none.
func selects(cfg *config.Config) *report.Select {
	if s := cfg.Select; s.Best > 0 {
		return &report.Select{Best: s.Best, Of: s.Of, By: s.By}
	}
	return nil
}

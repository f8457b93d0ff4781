package host

import (
	"cmp"
	"encoding/json"

	"latentbeam/internal/config"
	"latentbeam/internal/media/resize"
	"latentbeam/internal/results/report"
	"latentbeam/stages"
)

// TensorFacts returns the metadata of tensor tables: the facts about how tensors were made that are the same for all rows. half says that
// latents have 16 bits.
func (h *Stages) TensorFacts() (facts map[string]string, half bool) {
	m := map[string]string{}
	put := func(key, value string) {
		if value != "" {
			m["latentbeam."+key] = value
		}
	}
	for _, s := range h.Steps {
		if s.Gives == stages.KindText {
			put("text_encoder_digest", s.Digest())
		}
		if s.Capabilities().LatentSpace == nil {
			continue
		}
		space := s.Capabilities().LatentSpace()
		put("vae_digest", space.Digest)
		put("posterior", space.Posterior)
		half = space.DType == stages.BFloat16
		if len(space.Mean) > 0 {
			put(report.LatentsMean, numbers(space.Mean))
			put(report.LatentsStd, numbers(space.Std))
		}
	}
	if in := h.Config.Input; len(in.Media) > 0 {
		put("resize", cmp.Or(in.Resize, string(resize.Bicubic)))
		put("crop", cmp.Or(in.Crop, config.CropCenter))
		if !in.Cuts() {
			put("resize", "resize_crop") // the rule of Open-Sora, see media.NewFitter
		}
	}
	return m, half
}

// numbers formats numbers as a JSON list.
func numbers(list []float64) string {
	text, err := json.Marshal(list)
	if err != nil {
		return "" // a configuration with such a number was refused
	}
	return string(text)
}

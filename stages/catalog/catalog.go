package catalog

import (
	"latentbeam/stages"
	"latentbeam/stages/clip"
	"latentbeam/stages/diffuse"
	"latentbeam/stages/exec"
	"latentbeam/stages/guard"
	"latentbeam/stages/quality"
	"latentbeam/stages/t5"
	"latentbeam/stages/vae"
	"latentbeam/stages/video"
)

// All returns every stage, in the order in which a text-to-video job uses them.
func All() []stages.Spec {
	return []stages.Spec{
		t5.Spec(),
		diffuse.Spec(Denoisers(), added.solvers, vae.OpenReencoder),
		vae.Spec(),
		vae.Encode(),
		vae.Reference(),
		vae.Image(),
		clip.Spec(),
		quality.Spec(),
		guard.Spec(),
		video.Encode(),
		video.Measure(),
		exec.Spec(),
	}
}

package catalog

import (
	"latentbeam/stages"
	"latentbeam/stages/clip"
	"latentbeam/stages/diffuse"
	"latentbeam/stages/exec"
	"latentbeam/stages/guard"
	"latentbeam/stages/score"
	"latentbeam/stages/t5"
	"latentbeam/stages/vae"
	"latentbeam/stages/video"
)

// All returns every stage, in the order of a text-to-video job.
func All() []stages.Spec {
	return []stages.Spec{
		t5.Spec(),
		diffuse.Spec(Denoisers(), added.solvers, vae.OpenReencoder),
		vae.Spec(),
		vae.Encode(),
		vae.Reference(),
		vae.Image(),
		clip.Spec(),
		score.Quality(),
		guard.Spec(),
		video.Encode(),
		score.Spec(),
		video.Measure(),
		exec.Spec(),
	}
}

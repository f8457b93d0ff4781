// Package condition knows how Open-Sora puts given images and videos into a clip that is being made: the mask
// strategy that says which latent frames go where, the prompts of a video of several clips, and how a clip goes
// on from the one before.
//
// It works on latents as host arrays and on texts. Models, files and pixels never enter.
package condition

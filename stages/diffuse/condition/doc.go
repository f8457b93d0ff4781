// Package condition puts given images and videos into a clip as Open-Sora does. It handles the mask strategy, which says which
// latent frames go where; the prompts of a video of several clips; and how a clip continues the clip before.
//
// It works on latents as host arrays and on texts. It does not use models, files or pixels.
package condition

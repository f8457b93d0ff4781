// Package clip implements the vision encoder of CLIP (transformers' CLIPVisionModel), a vision transformer over the patches of
// an image. The stage `embed_image` encodes a row's reference images for image to video of Wan 2.1: the hidden states before
// the last layer, one token for the image and one for each patch.
//
// Images are prepared as transformers' CLIPImageProcessor does with PIL: the shorter side is resized with the bicubic filter,
// and the middle is cropped.
package clip

// Package clip is the vision encoder of CLIP (transformers' CLIPVisionModel): a vision transformer over the patches of an
// image. The stage `embed_image` makes of a row's reference images what image to video of Wan 2.1 attends to: the hidden
// states before the last layer, one token for the image and one for each patch.
//
// Images are prepared as transformers' CLIPImageProcessor does with PIL: the shorter side is resized by the bicubic filter,
// and the middle is cut out.
package clip

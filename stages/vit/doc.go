// Package vit implements vision transformers: the layer that CLIP's towers and DINO share, and the network of DINO itself
// (Caron et al., arXiv 2104.14294, the repository facebookresearch/dino), whose class token describes an image.
//
// Images are normalised pixels (H, W, 3). The package does not read files or frames.
package vit

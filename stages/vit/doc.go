// Package vit is vision transformers: the layer that the towers of CLIP and the network of DINO share, and that network
// itself (Caron et al., arXiv 2104.14294, the repository facebookresearch/dino), whose class token describes an image.
//
// Images come as normalised pixels (H, W, 3). How files and frames become pixels is not known here.
package vit

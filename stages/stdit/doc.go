// Package stdit implements the denoisers of Open-Sora 1.x: STDiT of 1.0 (stdit1.go), STDiT2 of 1.1 (stdit2.go) and STDiT3 of
// 1.2 and 1.3 (stdit3.go). They are diffusion transformers (arXiv:2212.09748) with spatial and temporal attention and PixArt's
// text conditioning (arXiv:2310.00426). Tensors have their published names. The stage denoise (stages/diffuse) finds them with
// Denoiser and runs them with the functions of batch.go.
//
// One call of Forward is one evaluation of the network. The package does not know samplers, guidance or the text encoder. A new
// version of the family is a network in its own file. Code that two versions share belongs to Model, or to stages/nn if other
// models can use it.
package stdit

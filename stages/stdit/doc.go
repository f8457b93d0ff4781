// Package stdit holds the denoisers of Open-Sora 1.x, diffusion transformers (arXiv:2212.09748) with spatial and
// temporal attention and PixArt's text conditioning (arXiv:2310.00426), by the published tensor names: STDiT of
// 1.0 (stdit1.go), STDiT2 of 1.1 (stdit2.go) and STDiT3 of 1.2 and 1.3 (stdit3.go). The stage that
// runs them is stages/diffuse; Denoiser is their entry in its list, batch.go what it calls.
//
// One call of Forward is one evaluation of the network. Samplers, guidance and the text encoder never
// enter. A further version of the family becomes a network in a file of its own; what two of them share moves
// to Model or, where other models could use it, to stages/nn.
package stdit

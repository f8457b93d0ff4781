// Package stdit is the denoiser of Open-Sora 1.0: STDiT, a diffusion transformer (arXiv:2212.09748) with
// spatial and temporal self attention and PixArt's text conditioning (arXiv:2310.00426), by the published
// tensor names ("x_embedder.proj.weight", "blocks.N.attn_temp.qkv.weight", ...).
//
// One call of Forward is one evaluation of the network. Samplers, guidance and the text encoder never
// enter. Later versions of the architecture, whose blocks differ in order and conditioning, become files
// of their own here; what two of them share moves to stages/nn.
package stdit

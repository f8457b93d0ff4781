package wan

import (
	"fmt"
	"strings"

	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/stages/diffuse/dit"
	"latentbeam/stages/nn"
	"latentbeam/stages/weights"
)

// Image to video: besides the noisy latents, the network takes the latents of a clip (the image first, then grey frames) and a
// mask that marks the image's frames.

// maskChannels is the number of channels of the mask: one for each pixel frame in a latent frame.
const maskChannels = strideT

// extraChannels returns the number of additional input channels: 0, or a mask and latents.
func (c Config) extraChannels() int { return c.InChannels - c.OutChannels }

// hasLastFrame reports whether a row also gives the last frame.
func hasLastFrame(row *schemas.PromptRow) bool { return strings.Contains(row.Reference, ";") }

// conditions uploads the additional input of the network: for each part the patch vectors (n, T, W, c ph pw) of its patches
// without padding.
func (b *batch) conditions() {
	if b.Config.extraChannels() == 0 || b.own.Lo > 0 {
		return
	}
	for i, p := range b.rows.Parts {
		real := b.rows.Real(i, b.area)
		width := b.Config.extraChannels() * b.PatchSize.Size()
		var values []float32
		for r := range p.Rows.Len {
			values = append(values, b.extraVectors(b.rows.Rows[p.Rows.Start+r], real.Start, real.Len)...)
		}
		x := b.be.Alloc(b.DType, p.Rows.Len, b.frames, real.Len, width)
		if len(values) > 0 {
			b.be.Upload(x, values)
		}
		b.extra = append(b.extra, x)
	}
}

// extraVectors returns the additional patch vectors (T, patches, c ph pw) of some patches of a row: mask, then latents.
func (b *batch) extraVectors(row dit.BatchRow, first, patches int) []float32 {
	size, pw := b.rows.Size, b.PatchSize[2]
	cols, area := size.W/pw, size.H*size.W
	var latents []float32 // none when memory and work are measured
	if len(row.References) > 0 {
		latents = row.References[0].Data
	}
	out := make([]float32, 0, size.T*patches*b.Config.extraChannels()*b.PatchSize.Size())
	for t := range size.T {
		for p := first; p < first+patches; p++ {
			for c := range b.Config.extraChannels() {
				for i := range b.PatchSize[1] * pw {
					y, x := p/cols*b.PatchSize[1]+i/pw, p%cols*pw+i%pw
					v := float32(0)
					if ch := c - maskChannels; ch >= 0 && latents != nil {
						v = latents[(ch*size.T+t)*area+y*size.W+x]
					} else if ch < 0 && (t == 0 || c == maskChannels-1 && t == size.T-1 && hasLastFrame(&row.Row)) {
						v = 1
					}
					out = append(out, v)
				}
			}
		}
	}
	return out
}

// Embed writes the tokens x of a part.
func (b *batch) Embed(part int, x, vectors kernels.Tensor) {
	if b.Config.extraChannels() == 0 {
		b.patch.Into(b.be, x, vectors)
		return
	}
	defer b.be.Scope()()
	n, own := vectors.Dim(3), b.extra[part].Dim(3)
	all := b.be.Alloc(vectors.DType, vectors.Dim(0), vectors.Dim(1), vectors.Dim(2), n+own)
	b.be.Copy(all.Narrow(3, 0, n), vectors)
	b.be.Copy(all.Narrow(3, n, own), b.extra[part])
	b.patch.Into(b.be, x, all)
}

// imageEmbedder maps the output of CLIP's vision encoder for an image to the width of the blocks.
type imageEmbedder struct {
	in, out    norm           // norm1, norm2
	first      nn.Linear      // ff.net.0.proj (width, width)
	second     nn.Linear      // ff.net.2 (C, width)
	positions  kernels.Tensor // pos_embed (tokens, width), in models that take the first and the last frame; else none
	width, all int            // width of a CLIP token, and number of tokens of all images together, 0: any
}

// imageNormEps is the epsilon of the embedder's norms.
const imageNormEps = 1e-5

func loadImageEmbedder(w *weights.Weights, cfg Config) *imageEmbedder {
	width, c := *cfg.ImageDim, cfg.Hidden()
	e := &imageEmbedder{in: loadNorm(w.Sub("norm1"), width, imageNormEps), out: loadNorm(w.Sub("norm2"), c, imageNormEps),
		first: nn.LoadLinear(w.Sub("ff.net.0.proj"), width, width), second: nn.LoadLinear(w.Sub("ff.net.2"), width, c), width: width}
	if cfg.ImageTokens != nil {
		e.all = *cfg.ImageTokens
		if e.positions = w.Tensor("pos_embed", 1, e.all, width); !e.positions.IsZero() {
			e.positions = e.positions.Reshape(e.all, width)
		}
	}
	return e
}

// clipTokens is the number of CLIP tokens for an image in the published models.
const clipTokens = 257

// allocImageKV allocates the keys and values of the images of all rows, which must have the same number of tokens.
func (b *batch) allocImageKV() error {
	tokens := clipTokens
	if b.image.all > 0 {
		tokens = b.image.all
	}
	for i, r := range b.rows.Rows {
		e := r.ImageEmbedding
		switch {
		case r.Key == (schemas.Key{}) && e == nil && len(r.References) == 0: // memory and work are being measured
			continue
		case e == nil:
			return fmt.Errorf("the row has no image embedding: put `- embed_image: {}` before denoise")
		case len(e.Shape) != 2 || e.Shape[1] != b.image.width || i > 0 && e.Shape[0] != tokens ||
			b.image.all > 0 && e.Shape[0] != b.image.all:
			return fmt.Errorf("the image embedding has shape %v, the model takes (tokens, %d)", e.Shape, b.image.width)
		}
		tokens = e.Shape[0]
	}
	b.imageKV = make([]kernels.Tensor, b.Layers)
	for i := b.own.Lo; i < b.own.Hi; i++ {
		b.imageKV[i] = b.be.Alloc(b.DType, len(b.rows.Rows), tokens, 2, b.blocks[i].cross.mine.Len(), b.HeadSize)
	}
	return nil
}

// embedImages returns the embedded images of the rows (B, tokens, C). Rows for measurements have zeros.
func (b *batch) embedImages() kernels.Tensor {
	be, e := b.be, b.image
	tokens := b.imageKV[b.own.Lo].Dim(1)
	images := be.Alloc(b.DType, len(b.rows.Rows), tokens, e.width)
	for i, r := range b.rows.Rows {
		values := make([]float32, tokens*e.width)
		if r.ImageEmbedding != nil {
			copy(values, r.ImageEmbedding.Data)
		}
		be.Upload(images.Index(i), values)
	}
	if !e.positions.IsZero() {
		be.Binary(images, images, e.positions.Expand(images.Shape...), kernels.Add)
	}
	x := e.first.Forward(be, e.in.forward(be, images), kernels.Identity)
	nn.GELU(be, x)
	return e.out.forward(be, e.second.Forward(be, x, kernels.Identity))
}

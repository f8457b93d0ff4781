package kl

import (
	"latentbeam/kernels"
	"latentbeam/stages/nn"
	"latentbeam/stages/weights"
)

// groupNormEps is the epsilon of all GroupNorms of AutoencoderKL.
const groupNormEps = 1e-6

// resnet is x + conv2(silu(norm2(conv1(silu(norm1(x)))))). If the number of channels changes, x passes a 1x1 convolution.
type resnet struct {
	norm1, norm2 nn.GroupNorm
	conv1, conv2 nn.Conv
	shortcut     *nn.Conv // conv_shortcut; nil if the number of channels stays
}

func loadResnet(w *weights.Weights, in, out, groups int) resnet {
	r := resnet{
		norm1: nn.LoadGroupNorm(w.Sub("norm1"), in, groups, groupNormEps),
		conv1: nn.LoadConv(w.Sub("conv1"), in, out, 3),
		norm2: nn.LoadGroupNorm(w.Sub("norm2"), out, groups, groupNormEps),
		conv2: nn.LoadConv(w.Sub("conv2"), out, out, 3),
	}
	if in != out {
		shortcut := nn.LoadConv(w.Sub("conv_shortcut"), in, out, 1)
		r.shortcut = &shortcut
	}
	return r
}

// forward returns the block's output (N, H, W, Cout) for x (N, H, W, Cin).
func (r resnet) forward(be kernels.Backend, x kernels.Tensor) kernels.Tensor {
	y := be.Alloc(x.DType, x.Dim(0), x.Dim(1), x.Dim(2), r.conv2.W.Dim(0)) // (N, H, W, Cout)
	r.into(be, y, x)
	return y
}

// into is forward with a given destination.
func (r resnet) into(be kernels.Backend, dst, x kernels.Tensor) {
	defer be.Scope()()
	h := r.conv1.Forward(be, r.norm1.Forward(be, x, kernels.SiLU)) // (N, H, W, Cout)
	r.norm2.Into(be, h, h, kernels.SiLU)
	if r.shortcut != nil {
		x = r.shortcut.Forward(be, x) // (N, H, W, Cout)
	}
	r.conv2.Into(be, dst, h, x)
}

// attention is single-head self attention over all positions of an image, after a GroupNorm.
type attention struct {
	norm         nn.GroupNorm
	q, k, v, out nn.Linear // (C, C)
}

// Spellings maps the published name of each part of the attention in today's diffusers to its name before version 0.15.
var Spellings = map[string]string{"to_q": "query", "to_k": "key", "to_v": "value", "to_out.0": "proj_attn"}

func loadAttention(w *weights.Weights, c, groups int) attention {
	linear := func(name string) nn.Linear {
		if old := Spellings[name]; !w.Has(name+".weight") && w.Has(old+".weight") {
			name = old
		}
		part := w.Sub(name)
		return nn.Linear{W: part.Pointwise("weight", c, c), B: part.Tensor("bias", c)}
	}
	return attention{
		norm: nn.LoadGroupNorm(w.Sub("group_norm"), c, groups, groupNormEps),
		q:    linear("to_q"), k: linear("to_k"), v: linear("to_v"), out: linear("to_out.0"),
	}
}

// addTo adds the attention of x (N, H, W, C) to x, in place.
func (a attention) addTo(be kernels.Backend, x kernels.Tensor) {
	defer be.Scope()()
	n, c := x.Dim(0), x.Dim(3)
	length := x.Dim(1) * x.Dim(2)
	h := a.norm.Forward(be, x, kernels.Identity) // (N, H, W, C)
	tokens := func(l nn.Linear) kernels.Tensor { // (N, H W, 1, C)
		return l.Forward(be, h, kernels.Identity).Reshape(n, length, 1, c)
	}
	q, k, v := tokens(a.q), tokens(a.k), tokens(a.v)
	mixed := be.Alloc(x.DType, n, length, 1, c) // (N, H W, 1, C)
	be.Attention(mixed, q, k, v, kernels.AttentionSpec{Scale: nn.AttentionScale(c)})
	a.out.AddTo(be, x, mixed.Reshape(x.Shape...), kernels.Tensor{})
}

// coderBlock is DownEncoderBlock2D or UpDecoderBlock2D: a list of resnets, each with or without attention after it. Every block
// but the last of encoder and decoder ends with a convolution to half or twice the size.
type coderBlock struct {
	resnets       []resnet    // resnets.N
	attns         []attention // attentions.N; most blocks have none
	halve, double func(be kernels.Backend, dst, x kernels.Tensor)
}

func loadCoderBlock(w *weights.Weights, in, out, resnets, groups int, attends bool) (b coderBlock) {
	for j := range resnets {
		b.resnets = append(b.resnets, loadResnet(w.Subf("resnets.%d", j), in, out, groups))
		in = out
		if attends {
			b.attns = append(b.attns, loadAttention(w.Subf("attentions.%d", j), out, groups))
		}
	}
	return b
}

// forward returns the block's output (N, H', W', Cout) for x (N, H, W, Cin). Only the output outlives the call, because at full
// size these tensors are most of the memory of a decoder.
func (b coderBlock) forward(be kernels.Backend, x kernels.Tensor) kernels.Tensor {
	h, w, resize := x.Dim(1), x.Dim(2), b.halve
	switch {
	case b.halve != nil:
		h, w = h/2, w/2
	case b.double != nil:
		h, w, resize = 2*h, 2*w, b.double
	}
	y := be.Alloc(x.DType, x.Dim(0), h, w, b.resnets[0].conv2.W.Dim(0)) // (N, H', W', Cout)
	defer be.Scope()()
	for i, r := range b.resnets {
		if i == len(b.resnets)-1 && resize == nil {
			r.into(be, y, x)
			x = y
		} else {
			x = r.forward(be, x) // (N, H, W, Cout)
		}
		if len(b.attns) > 0 {
			b.attns[i].addTo(be, x)
		}
	}
	if resize != nil {
		resize(be, y, x)
	}
	return y
}

// loadQuant loads the 1x1 convolution between latents and inner channels, if there is one.
func loadQuant(w *weights.Weights, name string, channels int, there bool) *nn.Conv {
	if !there {
		return nil
	}
	c := nn.LoadConv(w.Sub(name), channels, channels, 1)
	return &c
}

// mid is the mid_block of encoder and decoder: resnet, attention, resnet.
type mid struct {
	first, second resnet
	attention     *attention // nil: none (mid_block_add_attention)
}

func loadMid(w *weights.Weights, c, groups int, attends bool) mid {
	m := mid{first: loadResnet(w.Sub("resnets.0"), c, c, groups), second: loadResnet(w.Sub("resnets.1"), c, c, groups)}
	if attends {
		a := loadAttention(w.Sub("attentions.0"), c, groups)
		m.attention = &a
	}
	return m
}

// forward returns the block's output for x, both (N, H, W, C).
func (m mid) forward(be kernels.Backend, x kernels.Tensor) kernels.Tensor {
	x = m.first.forward(be, x)
	if m.attention != nil {
		m.attention.addTo(be, x)
	}
	return m.second.forward(be, x)
}

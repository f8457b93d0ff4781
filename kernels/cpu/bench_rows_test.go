package cpu

import (
	"fmt"
	"testing"

	"latentbeam/kernels"
)

// addAttention adds attentions of STDiT-XL/2 (at 16x256x256 and 16x512x512), T5-xxl, Wan and the built-in model. "space" is over the tokens of a
// frame, and "time" over the frames, where consecutive tokens of the fused projection are a whole frame apart. In "text", the keys are a text.
// "T5" has relative positions. "video" is over all tokens of 480x832x17, with two heads. A shape in a name is batch, frames, tokens, heads and
// width of a head.
func (k *kernelBench) addAttention() {
	for _, c := range []struct {
		name       string
		b, t, s, d int // batch, frames, tokens of a frame, width of a head
		text       int // tokens of the text
		heads      int
	}{
		{"space", 4, 1, 256, 72, 0, 16}, {"space", 1, 1, 1024, 72, 0, 16}, {"space", 1, 1, 4096, 64, 0, 16},
		{"space", 16, 1, 64, 32, 0, 4}, {"time", 1, 16, 64, 32, 0, 4},
		{"time", 1, 16, 256, 72, 0, 16}, {"time", 1, 16, 1024, 72, 0, 16}, {"time", 1, 30, 256, 72, 0, 16},
		{"text", 1, 1, 4096, 72, 120, 16}, {"T5", 1, 1, 300, 64, 300, 16},
		{"video", 1, 1, 7800, 128, 0, 2}, {"text", 1, 1, 7800, 128, 512, 12}, {"space", 1, 1, 6240, 384, 0, 1},
	} {
		if k.be.tier == portable && c.b*c.t*c.s > 1024 {
			continue
		}
		keys := c.s
		switch c.name {
		case "time":
			keys = c.t
		case "text":
			keys = c.text
		}
		flop := 4 * float64(c.b*c.t*c.s*c.heads*c.d) * float64(keys)
		for _, dt := range []kernels.DType{kernels.F32, kernels.BF16} {
			add := func(kind string, int8 bool) {
				name := fmt.Sprintf("op=attention_%s/shape=%s/keys=%d/type=%s", c.name, times(c.b, c.t, c.s, c.heads, c.d), keys, kind)
				k.add(name, k.bound(dt, dt), flop, func(*testing.B) func() {
					qkv := filled(k.be, dt, c.b, c.t, c.s, 3, c.heads, c.d)
					part := func(i int) kernels.Tensor { return qkv.Narrow(3, i, 1).Reshape(c.b, c.t, c.s, c.heads, c.d) }
					q, key, v, dst := part(0), part(1), part(2), k.be.Alloc(dt, c.b, c.t, c.s, c.heads, c.d)
					spec := kernels.AttentionSpec{Scale: 0.1, Int8: int8}
					switch c.name {
					case "time":
						q, key, v = q.Permute(0, 2, 1, 3, 4), key.Permute(0, 2, 1, 3, 4), v.Permute(0, 2, 1, 3, 4)
						dst = dst.Permute(0, 2, 1, 3, 4)
					case "text":
						q = filled(k.be, dt, c.b, c.t, c.s, c.heads, c.d)
						key, v = key.Narrow(2, 0, keys), v.Narrow(2, 0, keys)
					case "T5":
						spec.Bias = filled(k.be, kernels.F32, c.heads, c.s, c.s)
					}
					return func() { k.be.Attention(dst, q, key, v, spec) }
				})
			}
			add(typeName(dt), false)
			if c.name == "video" {
				add(typeName(dt)+",int8", true)
			}
		}
	}
}

// addRows adds operations that memory bounds. It compares the bytes that they read and write, once each, with the read bandwidth.
func (k *kernelBench) addRows() {
	const tokens, c = 4096, 1152
	for _, dt := range []kernels.DType{kernels.F32, kernels.BF16} {
		of := func(shape ...int) kernels.Tensor { return filled(k.be, dt, shape...) }
		// row adds an operation that reads and writes a number of tensors of a shape.
		row := func(name string, tensors int, shape []int, open func(x kernels.Tensor) func()) {
			elements := 1
			for _, n := range shape {
				elements *= n
			}
			k.add(fmt.Sprintf("op=%s/shape=%s/type=%s", name, times(shape...), typeName(dt)), "read", float64(tensors*elements*dt.Size()),
				func(*testing.B) func() { return open(of(shape...)) })
		}
		norm := func(spec func(x kernels.Tensor) kernels.NormSpec) func(x kernels.Tensor) func() {
			return func(x kernels.Tensor) func() {
				dst, s := k.be.Alloc(dt, x.Shape...), spec(x)
				return func() { k.be.Norm(dst, x, s) }
			}
		}
		stream, heads := []int{tokens, c}, []int{16, 256, 2, 16, 72}
		angles := func() kernels.Tensor {
			return filled(k.be, kernels.F32, 16, 1, 1, 1, 36).Expand(16, 256, 2, 16, 36)
		}
		// headed opens an operation on the queries and keys of a fused projection, which also has the values.
		headed := func(run func(qk kernels.Tensor) func()) func(kernels.Tensor) func() {
			return func(kernels.Tensor) func() { return run(of(16, 256, 3, 16, 72).Narrow(2, 0, 2)) }
		}
		row("layer_norm_modulated", 2, stream, norm(func(kernels.Tensor) kernels.NormSpec {
			mod := of(1, c).Expand(tokens, c)
			return kernels.NormSpec{Scale: mod, Shift: mod}
		}))
		row("layer_norm", 2, stream, norm(func(kernels.Tensor) kernels.NormSpec { return kernels.NormSpec{} }))
		row("rms_norm", 2, stream, norm(func(kernels.Tensor) kernels.NormSpec {
			return kernels.NormSpec{Kind: kernels.RMSNorm, Weight: of(1, c).Expand(tokens, c)}
		}))
		row("rms_norm_of_heads", 2, heads, headed(func(qk kernels.Tensor) func() {
			w := of(72)
			return func() { k.be.Norm(qk, qk, kernels.NormSpec{Kind: kernels.RMSNorm, Weight: w}) }
		}))
		row("rope", 2, heads, headed(func(qk kernels.Tensor) func() {
			a := angles()
			return func() { k.be.Rope(qk, qk, a, a) }
		}))
		row("rms_norm_and_rope", 2, heads, headed(func(qk kernels.Tensor) func() {
			w, a := of(72), angles()
			return func() { k.be.Norm(qk, qk, kernels.NormSpec{Kind: kernels.RMSNorm, Weight: w, Cos: a, Sin: a}) }
		}))
		row("group_norm_silu", 3, []int{1, 128, 128, 256}, func(image kernels.Tensor) func() {
			w := of(256)
			return func() {
				k.be.Norm(image, image, kernels.NormSpec{Kind: kernels.GroupNorm, Groups: 32, Weight: w, Bias: w, Act: kernels.SiLU})
			}
		})
		row("rms_norm_silu", 2, []int{tokens * 12, 96}, norm(func(kernels.Tensor) kernels.NormSpec {
			return kernels.NormSpec{Kind: kernels.RMSNorm, Weight: of(96), Act: kernels.SiLU}
		}))
		unary := func(op kernels.UnaryOp) func(x kernels.Tensor) func() {
			return func(x kernels.Tensor) func() {
				dst := k.be.Alloc(dt, x.Shape...)
				return func() { k.be.Unary(dst, x, op) }
			}
		}
		row("gelu", 2, stream, unary(kernels.GELUTanh))
		row("silu", 2, stream, unary(kernels.SiLU))
		row("add", 3, stream, func(x kernels.Tensor) func() {
			y, dst := of(x.Shape...), k.be.Alloc(dt, x.Shape...)
			return func() { k.be.Binary(dst, x, y, kernels.Add) }
		})
		row("permute", 2, stream, func(x kernels.Tensor) func() {
			dst := k.be.Alloc(dt, x.Shape...)
			return func() { k.be.Copy(dst.Reshape(256, 16, c), x.Reshape(16, 256, c).Permute(1, 0, 2)) }
		})
	}
}

package cpu

import (
	"fmt"

	"latentbeam/kernels"
)

// addAttention adds the attentions of STDiT-XL/2, at 16x256x256 and 16x512x512, and of T5-xxl: over space,
// over time where the queries, keys and values of a fused projection lie frames apart, over a text, and
// with relative positions. "video" is Wan's, over all tokens of 480x832x17, of two heads; "text" at 128 is Wan's too.
func addAttention(be *Backend, add adder) {
	for _, c := range []struct {
		name       string
		b, t, s, d int
		text       int
		heads      int
	}{
		{"space", 4, 1, 256, 72, 0, 16}, {"space", 1, 1, 1024, 72, 0, 16}, {"space", 1, 1, 4096, 64, 0, 16},
		{"time", 1, 16, 256, 72, 0, 16}, {"time", 1, 16, 1024, 72, 0, 16}, {"time", 1, 30, 256, 72, 0, 16},
		{"text", 1, 1, 4096, 72, 120, 16}, {"T5", 1, 1, 300, 64, 300, 16},
		{"video", 1, 1, 7800, 128, 0, 2}, {"text", 1, 1, 7800, 128, 512, 12}, {"space", 1, 1, 6240, 384, 0, 1},
	} {
		heads := c.heads
		if be.tier == portable && c.b*c.t*c.s > 1024 {
			continue
		}
		for _, dt := range []kernels.DType{kernels.F32, kernels.BF16} {
			kind := map[kernels.DType]string{kernels.F32: "f32", kernels.BF16: "bf16"}[dt]
			peak := kind
			if be.tier.dotFor(dt, dt) == dotF32 {
				peak = "f32"
			}
			qkv := filled(be, dt, c.b, c.t, c.s, 3, heads, c.d)
			part := func(i int) kernels.Tensor { return qkv.Narrow(3, i, 1).Reshape(c.b, c.t, c.s, heads, c.d) }
			q, k, v, dst := part(0), part(1), part(2), be.Alloc(dt, c.b, c.t, c.s, heads, c.d)
			keys, spec := c.s, kernels.AttentionSpec{Scale: 0.1}
			switch c.name {
			case "time":
				q, k, v = q.Permute(0, 2, 1, 3, 4), k.Permute(0, 2, 1, 3, 4), v.Permute(0, 2, 1, 3, 4)
				dst, keys = dst.Permute(0, 2, 1, 3, 4), c.t
			case "text":
				q, keys = filled(be, dt, c.b, c.t, c.s, heads, c.d), c.text
				k, v = k.Narrow(2, 0, keys), v.Narrow(2, 0, keys)
			case "T5":
				spec.Bias = filled(be, kernels.F32, heads, c.s, c.s)
			}
			flop := 4 * float64(dst.Len()) * float64(keys)
			shape := fmt.Sprintf("%dx%dx%d, %d keys of %d", c.b, c.t, c.s, keys, c.d)
			add("attention "+c.name, shape, kind, "GFLOP/s", peak, flop, func() { be.Attention(dst, q, k, v, spec) })
			if c.name == "video" {
				scored := spec
				scored.Int8 = true
				add("attention "+c.name, shape, kind+", scores int8", "GFLOP/s", peak, flop, func() { be.Attention(dst, q, k, v, scored) })
			}
		}
	}
}

// addRows adds what memory bounds: bytes read and written, once each, against the read bandwidth.
func addRows(be *Backend, add adder) {
	const tokens, c = 4096, 1152
	for _, dt := range []kernels.DType{kernels.F32, kernels.BF16} {
		x, y, dst := filled(be, dt, tokens, c), filled(be, dt, tokens, c), be.Alloc(dt, tokens, c)
		mod, w := filled(be, dt, 1, c).Expand(tokens, c), filled(be, dt, 72)
		short := filled(be, dt, 96)
		qk := filled(be, dt, 16, 256, 3, 16, 72).Narrow(2, 0, 2)
		angles := filled(be, kernels.F32, 16, 1, 1, 1, 36).Expand(16, 256, 2, 16, 36)
		image, gw := filled(be, dt, 1, 128, 128, 256), filled(be, dt, 256)
		for _, r := range []struct {
			name  string
			on    kernels.Tensor
			moves int // tensors read and written
			run   func()
		}{
			{"layer norm, modulated", x, 2, func() { be.Norm(dst, x, kernels.NormSpec{Scale: mod, Shift: mod}) }},
			{"layer norm", x, 2, func() { be.Norm(dst, x, kernels.NormSpec{}) }},
			{"rms norm of heads", qk, 2, func() { be.Norm(qk, qk, kernels.NormSpec{Kind: kernels.RMSNorm, Weight: w}) }},
			{"rope", qk, 2, func() { be.Rope(qk, qk, angles, angles) }},
			{"rms norm and rope", qk, 2, func() {
				be.Norm(qk, qk, kernels.NormSpec{Kind: kernels.RMSNorm, Weight: w, Cos: angles, Sin: angles})
			}},
			{"group norm, silu", image, 3, func() {
				be.Norm(image, image, kernels.NormSpec{Kind: kernels.GroupNorm, Groups: 32, Weight: gw, Bias: gw,
					Act: kernels.SiLU})
			}},
			{"rms norm", x, 2, func() { be.Norm(dst, x, kernels.NormSpec{Kind: kernels.RMSNorm, Weight: mod}) }},
			{"rms norm, silu of 96", x, 2, func() {
				be.Norm(dst.Reshape(tokens*12, 96), x.Reshape(tokens*12, 96), kernels.NormSpec{Kind: kernels.RMSNorm, Weight: short,
					Act: kernels.SiLU})
			}},
			{"gelu", x, 2, func() { be.Unary(dst, x, kernels.GELUTanh) }},
			{"silu", x, 2, func() { be.Unary(dst, x, kernels.SiLU) }},
			{"add", x, 3, func() { be.Binary(dst, x, y, kernels.Add) }},
			{"permute", x, 2, func() {
				be.Copy(dst.Reshape(256, 16, c), x.Reshape(16, 256, c).Permute(1, 0, 2))
			}},
		} {
			add(r.name, fmt.Sprint(r.on.Len()), map[kernels.DType]string{kernels.F32: "f32", kernels.BF16: "bf16"}[dt],
				"GB/s", "read", float64(r.moves*r.on.Len()*dt.Size()), r.run)
		}
	}
}

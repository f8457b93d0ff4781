package kerneltest

import "latentbeam/kernels"

// shaped makes tensors of F32.
type shaped = func(shape ...int) kernels.Tensor

func linearMistakes() []mistake {
	var none kernels.Tensor
	var plain kernels.Epilogue
	linear := func(ep func(t shaped) kernels.Epilogue) func(device, shaped) {
		return func(b device, t shaped) { b.Linear(t(2, 3), t(2, 4), t(3, 4), ep(t)) }
	}
	return []mistake{
		{"linear: inner axes", "linear", func(b device, t shaped) { b.Linear(t(2, 3), t(2, 4), t(3, 5), plain) }},
		{"linear: dst", "linear", func(b device, t shaped) { b.Linear(t(2, 4), t(2, 4), t(3, 4), plain) }},
		{"linear: leading axes", "linear", func(b device, t shaped) { b.Linear(t(2, 1, 3), t(2, 4), t(3, 4), plain) }},
		{"linear: scalar", "linear", func(b device, t shaped) { b.Linear(t(), t(), t(1, 1), plain) }},
		{"linear: w of three axes", "linear", func(b device, t shaped) {
			b.Linear(t(2, 3), t(2, 4), t(3, 4, 1), plain)
		}},
		{"linear: no weight", "linear", func(b device, t shaped) { b.Linear(t(2, 3), t(2, 4), none, plain) }},
		{"linear: bias", "linear", linear(func(t shaped) kernels.Epilogue { return kernels.Epilogue{Bias: t(4)} })},
		{"linear: residual", "linear", linear(func(t shaped) kernels.Epilogue {
			return kernels.Epilogue{Residual: t(3)}
		})},
		{"linear: gate alone", "linear", linear(func(t shaped) kernels.Epilogue {
			return kernels.Epilogue{Gate: t(2, 4)}
		})},
		{"linear: gate", "linear", linear(func(t shaped) kernels.Epilogue {
			return kernels.Epilogue{Residual: t(2, 3), Gate: t(1, 3)}
		})},
		{"linear: an odd part", "linear", linear(func(shaped) kernels.Epilogue {
			return kernels.Epilogue{Parts: []int{1}}
		})},
		{"linear: parts that fall", "linear", linear(func(shaped) kernels.Epilogue {
			return kernels.Epilogue{Parts: []int{2, 2}}
		})},
		{"linear: a part beyond the sum", "linear", linear(func(shaped) kernels.Epilogue {
			return kernels.Epilogue{Parts: []int{4}}
		})},
		{"linear: onto", "linear", linear(func(t shaped) kernels.Epilogue { return kernels.Epilogue{Onto: t(3)} })},
		{"linear: act", "linear", linear(func(shaped) kernels.Epilogue { return kernels.Epilogue{Act: 99} })},
	}
}

func attentionMistakes() []mistake {
	attention := func(spec func(t shaped) kernels.AttentionSpec) func(device, shaped) {
		return func(b device, t shaped) {
			b.Attention(t(2, 5, 1, 4), t(2, 5, 1, 4), t(2, 6, 1, 4), t(2, 6, 1, 4), spec(t))
		}
	}
	return []mistake{
		{"attention: too few lengths", "attention", attention(func(shaped) kernels.AttentionSpec {
			return kernels.AttentionSpec{KeyLens: []int{1}}
		})},
		{"attention: length", "attention", attention(func(shaped) kernels.AttentionSpec {
			return kernels.AttentionSpec{KeyLens: []int{1, 7}}
		})},
		{"attention: negative length", "attention", attention(func(shaped) kernels.AttentionSpec {
			return kernels.AttentionSpec{KeyLens: []int{-1, 2}}
		})},
		{"attention: bias", "attention", attention(func(t shaped) kernels.AttentionSpec {
			return kernels.AttentionSpec{Bias: t(1, 6, 5)}
		})},
		{"attention: heads", "attention", func(b device, t shaped) {
			b.Attention(t(2, 5, 1, 4), t(2, 5, 1, 4), t(2, 6, 2, 4), t(2, 6, 2, 4), kernels.AttentionSpec{})
		}},
		{"attention: axes", "attention", func(b device, t shaped) {
			b.Attention(t(5, 1, 4), t(5, 1, 4), t(6, 1, 4), t(6, 1, 4), kernels.AttentionSpec{})
		}},
	}
}

func convMistakes() []mistake {
	conv := func(x, w, dst []int, spec kernels.ConvSpec) func(device, shaped) {
		return func(b device, t shaped) { b.Conv(t(dst...), t(x...), t(w...), spec) }
	}
	x, w, dst := []int{1, 4, 4, 2}, []int{3, 2, 3, 3}, []int{1, 2, 2, 3}
	return []mistake{
		{"conv: channels", "conv", conv(x, []int{3, 5, 3, 3}, dst, kernels.ConvSpec{})},
		{"conv: dst", "conv", conv(x, w, []int{1, 4, 4, 3}, kernels.ConvSpec{})},
		{"conv: axes", "conv", conv([]int{4, 4, 2}, w, dst, kernels.ConvSpec{})},
		{"conv: image smaller than kernel", "conv", conv([]int{1, 2, 2, 2}, w, dst, kernels.ConvSpec{})},
		{"conv: negative padding", "conv", conv(x, w, dst, kernels.ConvSpec{Top: -1, Bottom: 1})},
		{"conv: negative stride", "conv", conv(x, w, dst, kernels.ConvSpec{Stride: -1})},
		{"conv: negative stride in time", "conv", conv(x, w, dst, kernels.ConvSpec{StrideT: -1})},
		{"conv: time padding of images", "conv", conv(x, w, dst, kernels.ConvSpec{Front: 1})},
		{"conv: image with a video's kernel", "conv", conv(x, []int{3, 2, 1, 3, 3}, dst, kernels.ConvSpec{})},
		{"conv: fewer frames than the kernel", "conv",
			conv([]int{1, 2, 4, 4, 2}, []int{3, 2, 3, 3, 3}, []int{1, 1, 2, 2, 3}, kernels.ConvSpec{})},
		{"conv: negative padding in time", "conv", conv([]int{1, 4, 4, 4, 2}, []int{3, 2, 3, 3, 3},
			[]int{1, 2, 2, 2, 3}, kernels.ConvSpec{Front: -1, Back: 1})},
		{"conv: frames of dst", "conv",
			conv([]int{1, 4, 4, 4, 2}, []int{3, 2, 3, 3, 3}, []int{1, 3, 2, 2, 3}, kernels.ConvSpec{})},
	}
}

func normMistakes() []mistake {
	var none kernels.Tensor
	norm := func(spec func(t shaped) kernels.NormSpec) func(device, shaped) {
		return func(b device, t shaped) { b.Norm(t(2, 3, 3, 6), t(2, 3, 3, 6), spec(t)) }
	}
	return []mistake{
		{"norm: shapes", "norm", func(b device, t shaped) { b.Norm(t(3), t(4), kernels.NormSpec{}) }},
		{"norm: scalar", "norm", func(b device, t shaped) { b.Norm(t(), t(), kernels.NormSpec{}) }},
		{"norm: weight", "norm", norm(func(t shaped) kernels.NormSpec { return kernels.NormSpec{Weight: t(5)} })},
		{"norm: bias", "norm", norm(func(t shaped) kernels.NormSpec { return kernels.NormSpec{Bias: t(1, 6)} })},
		{"norm: scale alone", "norm", norm(func(t shaped) kernels.NormSpec {
			return kernels.NormSpec{Scale: t(2, 3, 3, 6)}
		})},
		{"norm: shift", "norm", norm(func(t shaped) kernels.NormSpec {
			return kernels.NormSpec{Scale: t(2, 3, 3, 6), Shift: t(2, 1, 1, 6)}
		})},
		{"norm: weight of rows", "norm", norm(func(t shaped) kernels.NormSpec {
			return kernels.NormSpec{Weight: t(2, 3, 3, 6)}
		})},
		{"norm: weight of some rows", "norm", norm(func(t shaped) kernels.NormSpec {
			return kernels.NormSpec{Kind: kernels.RMSNorm, Weight: t(3, 6)}
		})},
		{"norm: turned around a mean", "norm", norm(func(t shaped) kernels.NormSpec {
			return kernels.NormSpec{Cos: t(2, 3, 3, 3), Sin: t(2, 3, 3, 3)}
		})},
		{"norm: angles", "norm", norm(func(t shaped) kernels.NormSpec {
			return kernels.NormSpec{Kind: kernels.RMSNorm, Cos: t(2, 3, 3, 3), Sin: t(2, 3, 1, 3)}
		})},
		{"norm: no sines", "norm", norm(func(t shaped) kernels.NormSpec {
			return kernels.NormSpec{Kind: kernels.RMSNorm, Cos: t(2, 3, 3, 3)}
		})},
		{"norm: turned with a bias", "norm", norm(func(t shaped) kernels.NormSpec {
			return kernels.NormSpec{Kind: kernels.RMSNorm, Cos: t(2, 3, 3, 3), Sin: t(2, 3, 3, 3), Bias: t(6)}
		})},
		{"norm: turned with a function", "norm", norm(func(t shaped) kernels.NormSpec {
			return kernels.NormSpec{Kind: kernels.RMSNorm, Cos: t(2, 3, 3, 3), Sin: t(2, 3, 3, 3), Act: kernels.SiLU}
		})},
		{"norm: kind", "norm", norm(func(shaped) kernels.NormSpec { return kernels.NormSpec{Kind: 9} })},
		{"norm: act", "norm", norm(func(shaped) kernels.NormSpec { return kernels.NormSpec{Act: 9} })},
		{"norm: groups", "norm", norm(func(shaped) kernels.NormSpec {
			return kernels.NormSpec{Kind: kernels.GroupNorm, Groups: 4}
		})},
		{"rope: shapes", "rope", func(b device, t shaped) { b.Rope(t(2, 4), t(3, 4), t(2, 2), t(2, 2)) }},
		{"rope: odd width", "rope", func(b device, t shaped) { b.Rope(t(2, 5), t(2, 5), t(2, 2), t(2, 2)) }},
		{"rope: angles", "rope", func(b device, t shaped) { b.Rope(t(2, 4), t(2, 4), t(2, 4), t(2, 2)) }},
		{"rope: no sines", "rope", func(b device, t shaped) { b.Rope(t(2, 4), t(2, 4), t(2, 2), none) }},
		{"rope: scalar", "rope", func(b device, t shaped) { b.Rope(t(), t(), t(), t()) }},
		{"norm: no groups", "norm", norm(func(shaped) kernels.NormSpec {
			return kernels.NormSpec{Kind: kernels.GroupNorm}
		})},
	}
}

func otherMistakes() []mistake {
	var none kernels.Tensor
	return []mistake{
		{"alloc: negative", "alloc", func(_ device, t shaped) { t(3, -1) }},
		{"alloc: overflow", "alloc", func(_ device, t shaped) { t(1<<40, 1<<40) }},
		{"upload: length", "upload", func(b device, t shaped) { b.Upload(t(3), make([]float32, 2)) }},
		{"download: length", "download", func(b device, t shaped) { _ = b.Download(make([]float32, 2), t(3)) }},
		{"another device", "copy", func(b device, t shaped) {
			b.Copy(t(3), kernels.NewTensor(kernels.F32, "elsewhere", 3))
		}},
		{"copy: shapes", "copy", func(b device, t shaped) { b.Copy(t(3), t(4)) }},
		{"copy: nothing", "copy", func(b device, t shaped) { b.Copy(t(3), none) }},
		{"view beyond its buffer", "copy", func(b device, t shaped) {
			x := t(4)
			x.Offset = 2
			b.Copy(t(4), x)
		}},
		{"gather: id", "gather", func(b device, t shaped) { b.Gather(t(1, 3), t(4, 3), []int32{4}) }},
		{"gather: negative id", "gather", func(b device, t shaped) { b.Gather(t(1, 3), t(4, 3), []int32{-1}) }},
		{"gather: shapes", "gather", func(b device, t shaped) { b.Gather(t(1, 2), t(4, 3), []int32{1}) }},
		{"gather: rows", "gather", func(b device, t shaped) { b.Gather(t(2, 3), t(4, 3), []int32{1}) }},
		{"unary: shapes", "unary", func(b device, t shaped) { b.Unary(t(3), t(3, 1), kernels.SiLU) }},
		{"unary: operation", "unary", func(b device, t shaped) { b.Unary(t(3), t(3), 99) }},
		{"binary: shapes", "binary", func(b device, t shaped) { b.Binary(t(3), t(3), t(1), kernels.Add) }},
		{"binary: operation", "binary", func(b device, t shaped) { b.Binary(t(3), t(3), t(3), 99) }},
	}
}

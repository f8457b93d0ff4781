package kerneltest

import "latentbeam/kernels"

// mistake is a call that must fail.
type mistake struct {
	name string // the operation, which the message must contain, and what is wrong
	call func()
}

// noTensor is the zero Tensor, which means no tensor.
var noTensor kernels.Tensor

// linearMistakes and the functions below return wrong calls of an operation; t makes F32 tensors.
func linearMistakes(b device, t func(shape ...int) tensor) []mistake {
	var plain kernels.Epilogue
	with := func(ep kernels.Epilogue) { b.Linear(t(2, 3), t(2, 4), t(3, 4), ep) }
	return []mistake{
		{"linear: inner axes", func() { b.Linear(t(2, 3), t(2, 4), t(3, 5), plain) }},
		{"linear: dst", func() { b.Linear(t(2, 4), t(2, 4), t(3, 4), plain) }},
		{"linear: leading axes", func() { b.Linear(t(2, 1, 3), t(2, 4), t(3, 4), plain) }},
		{"linear: scalar", func() { b.Linear(t(), t(), t(1, 1), plain) }},
		{"linear: w of three axes", func() { b.Linear(t(2, 3), t(2, 4), t(3, 4, 1), plain) }},
		{"linear: no weight", func() { b.Linear(t(2, 3), t(2, 4), noTensor, plain) }},
		{"linear: bias", func() { with(kernels.Epilogue{Bias: t(4)}) }},
		{"linear: residual", func() { with(kernels.Epilogue{Residual: t(3)}) }},
		{"linear: gate alone", func() { with(kernels.Epilogue{Gate: t(2, 4)}) }},
		{"linear: gate", func() { with(kernels.Epilogue{Residual: t(2, 3), Gate: t(1, 3)}) }},
		{"linear: an odd part", func() { with(kernels.Epilogue{Parts: []int{1}}) }},
		{"linear: parts that fall", func() { with(kernels.Epilogue{Parts: []int{2, 2}}) }},
		{"linear: a part beyond the sum", func() { with(kernels.Epilogue{Parts: []int{4}}) }},
		{"linear: onto", func() { with(kernels.Epilogue{Onto: t(3)}) }},
		{"linear: act", func() { with(kernels.Epilogue{Act: 99}) }},
	}
}

func attentionMistakes(b device, t func(shape ...int) tensor) []mistake {
	var plain kernels.AttentionSpec
	with := func(spec kernels.AttentionSpec) {
		b.Attention(t(2, 5, 1, 4), t(2, 5, 1, 4), t(2, 6, 1, 4), t(2, 6, 1, 4), spec)
	}
	return []mistake{
		{"attention: too few lengths", func() { with(kernels.AttentionSpec{KeyLens: []int{1}}) }},
		{"attention: length", func() { with(kernels.AttentionSpec{KeyLens: []int{1, 7}}) }},
		{"attention: negative length", func() { with(kernels.AttentionSpec{KeyLens: []int{-1, 2}}) }},
		{"attention: bias", func() { with(kernels.AttentionSpec{Bias: t(1, 6, 5)}) }},
		{"attention: heads", func() { b.Attention(t(2, 5, 1, 4), t(2, 5, 1, 4), t(2, 6, 2, 4), t(2, 6, 2, 4), plain) }},
		{"attention: axes", func() { b.Attention(t(5, 1, 4), t(5, 1, 4), t(6, 1, 4), t(6, 1, 4), plain) }},
	}
}

func convMistakes(b device, t func(shape ...int) tensor) []mistake {
	conv := func(x, w, dst []int, spec kernels.ConvSpec) func() {
		return func() { b.Conv(t(dst...), t(x...), t(w...), spec) }
	}
	x, w, dst := []int{1, 4, 4, 2}, []int{3, 2, 3, 3}, []int{1, 2, 2, 3}
	video, cube := []int{1, 4, 4, 4, 2}, []int{3, 2, 3, 3, 3}
	return []mistake{
		{"conv: channels", conv(x, []int{3, 5, 3, 3}, dst, kernels.ConvSpec{})},
		{"conv: dst", conv(x, w, []int{1, 4, 4, 3}, kernels.ConvSpec{})},
		{"conv: axes", conv([]int{4, 4, 2}, w, dst, kernels.ConvSpec{})},
		{"conv: image smaller than kernel", conv([]int{1, 2, 2, 2}, w, dst, kernels.ConvSpec{})},
		{"conv: negative padding", conv(x, w, dst, kernels.ConvSpec{Top: -1, Bottom: 1})},
		{"conv: negative stride", conv(x, w, dst, kernels.ConvSpec{Stride: -1})},
		{"conv: negative stride in time", conv(x, w, dst, kernels.ConvSpec{StrideT: -1})},
		{"conv: time padding of images", conv(x, w, dst, kernels.ConvSpec{Front: 1})},
		{"conv: image with a video's kernel", conv(x, []int{3, 2, 1, 3, 3}, dst, kernels.ConvSpec{})},
		{"conv: fewer frames than the kernel", conv([]int{1, 2, 4, 4, 2}, cube, []int{1, 1, 2, 2, 3}, kernels.ConvSpec{})},
		{"conv: negative padding in time", conv(video, cube, []int{1, 2, 2, 2, 3}, kernels.ConvSpec{Front: -1, Back: 1})},
		{"conv: frames of dst", conv(video, cube, []int{1, 3, 2, 2, 3}, kernels.ConvSpec{})},
	}
}

func normMistakes(b device, t func(shape ...int) tensor) []mistake {
	const rms, group = kernels.RMSNorm, kernels.GroupNorm
	with := func(spec kernels.NormSpec) { b.Norm(t(2, 3, 3, 6), t(2, 3, 3, 6), spec) }
	rotated := func(spec kernels.NormSpec) {
		spec.Kind, spec.Cos, spec.Sin = rms, t(2, 3, 3, 3), t(2, 3, 3, 3)
		with(spec)
	}
	return []mistake{
		{"norm: shapes", func() { b.Norm(t(3), t(4), kernels.NormSpec{}) }},
		{"norm: scalar", func() { b.Norm(t(), t(), kernels.NormSpec{}) }},
		{"norm: weight", func() { with(kernels.NormSpec{Weight: t(5)}) }},
		{"norm: bias", func() { with(kernels.NormSpec{Bias: t(1, 6)}) }},
		{"norm: scale alone", func() { with(kernels.NormSpec{Scale: t(2, 3, 3, 6)}) }},
		{"norm: shift", func() { with(kernels.NormSpec{Scale: t(2, 3, 3, 6), Shift: t(2, 1, 1, 6)}) }},
		{"norm: weight of rows", func() { with(kernels.NormSpec{Weight: t(2, 3, 3, 6)}) }},
		{"norm: weight of some rows", func() { with(kernels.NormSpec{Kind: rms, Weight: t(3, 6)}) }},
		{"norm: rotation with a mean", func() { with(kernels.NormSpec{Cos: t(2, 3, 3, 3), Sin: t(2, 3, 3, 3)}) }},
		{"norm: angles", func() { with(kernels.NormSpec{Kind: rms, Cos: t(2, 3, 3, 3), Sin: t(2, 3, 1, 3)}) }},
		{"norm: no sines", func() { with(kernels.NormSpec{Kind: rms, Cos: t(2, 3, 3, 3)}) }},
		{"norm: rotation with a bias", func() { rotated(kernels.NormSpec{Bias: t(6)}) }},
		{"norm: rotation with an activation", func() { rotated(kernels.NormSpec{Act: kernels.SiLU}) }},
		{"norm: kind", func() { with(kernels.NormSpec{Kind: 9}) }},
		{"norm: act", func() { with(kernels.NormSpec{Act: 9}) }},
		{"norm: groups", func() { with(kernels.NormSpec{Kind: group, Groups: 4}) }},
		{"norm: no groups", func() { with(kernels.NormSpec{Kind: group}) }},
		{"rope: shapes", func() { b.Rope(t(2, 4), t(3, 4), t(2, 2), t(2, 2)) }},
		{"rope: odd width", func() { b.Rope(t(2, 5), t(2, 5), t(2, 2), t(2, 2)) }},
		{"rope: angles", func() { b.Rope(t(2, 4), t(2, 4), t(2, 4), t(2, 2)) }},
		{"rope: no sines", func() { b.Rope(t(2, 4), t(2, 4), t(2, 2), noTensor) }},
		{"rope: scalar", func() { b.Rope(t(), t(), t(), t()) }},
	}
}

func otherMistakes(b device, t func(shape ...int) tensor) []mistake {
	return []mistake{
		{"alloc: negative", func() { t(3, -1) }},
		{"alloc: overflow", func() { t(1<<40, 1<<40) }},
		{"upload: length", func() { b.Upload(t(3), make([]float32, 2)) }},
		{"download: length", func() { _ = b.Download(make([]float32, 2), t(3)) }},
		{"copy: another device", func() { b.Copy(t(3), kernels.NewTensor(kernels.F32, "elsewhere", 3)) }},
		{"copy: shapes", func() { b.Copy(t(3), t(4)) }},
		{"copy: nothing", func() { b.Copy(t(3), noTensor) }},
		{"copy: view beyond its buffer", func() {
			x := t(4)
			x.Offset = 2
			b.Copy(t(4), x)
		}},
		{"gather: id", func() { b.Gather(t(1, 3), t(4, 3), []int32{4}) }},
		{"gather: negative id", func() { b.Gather(t(1, 3), t(4, 3), []int32{-1}) }},
		{"gather: shapes", func() { b.Gather(t(1, 2), t(4, 3), []int32{1}) }},
		{"gather: rows", func() { b.Gather(t(2, 3), t(4, 3), []int32{1}) }},
		{"unary: shapes", func() { b.Unary(t(3), t(3, 1), kernels.SiLU) }},
		{"unary: operation", func() { b.Unary(t(3), t(3), 99) }},
		{"binary: shapes", func() { b.Binary(t(3), t(3), t(1), kernels.Add) }},
		{"binary: operation", func() { b.Binary(t(3), t(3), t(3), 99) }},
	}
}

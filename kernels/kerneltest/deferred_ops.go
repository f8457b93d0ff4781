package kerneltest

import (
	"slices"

	"latentbeam/kernels"
)

func (d *deferred) Upload(dst kernels.Tensor, src []float32) {
	src = slices.Clone(src)
	d.later("upload", []kernels.Tensor{dst}, func(t []kernels.Tensor) { d.inner.Upload(t[0], src) })
}

func (d *deferred) Copy(dst, src kernels.Tensor) {
	src = d.fromPeer(src)
	d.later("copy", []kernels.Tensor{dst, src}, func(t []kernels.Tensor) { d.inner.Copy(t[0], t[1]) })
}

func (d *deferred) Gather(dst, table kernels.Tensor, ids []int32) {
	ids = slices.Clone(ids)
	d.later("gather", []kernels.Tensor{dst, table}, func(t []kernels.Tensor) { d.inner.Gather(t[0], t[1], ids) })
}

func (d *deferred) Linear(dst, x, w kernels.Tensor, ep kernels.Epilogue) {
	ep.Parts = slices.Clone(ep.Parts)
	operands := []kernels.Tensor{dst, x, w, ep.Bias, ep.Residual, ep.Gate, ep.Onto}
	d.later("linear", operands, func(t []kernels.Tensor) {
		ep.Bias, ep.Residual, ep.Gate, ep.Onto = t[3], t[4], t[5], t[6]
		d.inner.Linear(t[0], t[1], t[2], ep)
	})
}

func (d *deferred) Attention(dst, q, k, v kernels.Tensor, spec kernels.AttentionSpec) {
	spec.KeyLens = slices.Clone(spec.KeyLens)
	d.later("attention", []kernels.Tensor{dst, q, k, v, spec.Bias}, func(t []kernels.Tensor) {
		spec.Bias = t[4]
		d.inner.Attention(t[0], t[1], t[2], t[3], spec)
	})
}

func (d *deferred) Norm(dst, x kernels.Tensor, spec kernels.NormSpec) {
	operands := []kernels.Tensor{dst, x, spec.Weight, spec.Bias, spec.Scale, spec.Shift, spec.Cos, spec.Sin}
	d.later("norm", operands, func(t []kernels.Tensor) {
		spec.Weight, spec.Bias, spec.Scale, spec.Shift, spec.Cos, spec.Sin = t[2], t[3], t[4], t[5], t[6], t[7]
		d.inner.Norm(t[0], t[1], spec)
	})
}

func (d *deferred) Rope(dst, x, cos, sin kernels.Tensor) {
	d.later("rope", []kernels.Tensor{dst, x, cos, sin}, func(t []kernels.Tensor) {
		d.inner.Rope(t[0], t[1], t[2], t[3])
	})
}

func (d *deferred) Unary(dst, x kernels.Tensor, op kernels.UnaryOp) {
	d.later("unary", []kernels.Tensor{dst, x}, func(t []kernels.Tensor) { d.inner.Unary(t[0], t[1], op) })
}

func (d *deferred) Binary(dst, a, b kernels.Tensor, op kernels.BinaryOp) {
	d.later("binary", []kernels.Tensor{dst, a, b}, func(t []kernels.Tensor) {
		d.inner.Binary(t[0], t[1], t[2], op)
	})
}

func (d *deferred) Conv(dst, x, w kernels.Tensor, spec kernels.ConvSpec) {
	d.later("conv", []kernels.Tensor{dst, x, w, spec.Bias, spec.Residual}, func(t []kernels.Tensor) {
		spec.Bias, spec.Residual = t[3], t[4]
		d.inner.Conv(t[0], t[1], t[2], spec)
	})
}

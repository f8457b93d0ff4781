//go:build cuda && linux

package cuda

import "latentbeam/kernels"

func (b *Backend) missing(op string) {
	b.fail("%s: its kernels are not part of this program yet", op)
}

// Attention computes softmax(scale q k^T + bias) v.
func (b *Backend) Attention(_, _, _, _ kernels.Tensor, _ kernels.AttentionSpec) {
	b.missing("attention")
}

// Norm normalises x into dst.
func (b *Backend) Norm(_, _ kernels.Tensor, _ kernels.NormSpec) { b.missing("norm") }

// Conv computes a convolution.
func (b *Backend) Conv(_, _, _ kernels.Tensor, _ kernels.ConvSpec) { b.missing("conv") }

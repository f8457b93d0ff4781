package nn

import (
	"slices"

	"latentbeam/kernels"
	"latentbeam/stages/layout"
	"latentbeam/stages/sequence"
	"latentbeam/stages/weights"
)

// Linear is y = x W^T + b, stored as PyTorch's nn.Linear.
type Linear struct {
	W kernels.Tensor // (out, in)
	B kernels.Tensor // (out), or none
	// Parts are the starts of the parts into which a sum over in is divided (see kernels.Epilogue), for layers whose sums
	// tensor parallelism may split. A single rank adds the same parts in the same order.
	Parts []int
	Int8  bool // compute the product with 8-bit numbers, see kernels.Epilogue
	cut   bool // other ranks of the tensor group have the rest of in
}

// LoadLinear reads "weight" (out, in) and "bias" (out).
func LoadLinear(w *weights.Weights, in, out int) Linear {
	return Linear{W: w.Tensor("weight", out, in), B: w.Tensor("bias", out), Int8: w.Rounds("weight")}
}

// Forward returns act(x W^T + b), of x's type: x (..., in) -> (..., out).
func (l Linear) Forward(be kernels.Backend, x kernels.Tensor, act kernels.UnaryOp) kernels.Tensor {
	shape := slices.Clone(x.Shape)
	shape[len(shape)-1] = l.W.Dim(0)
	y := be.Alloc(x.DType, shape...) // (..., out)
	l.linear(be, y, x, kernels.Epilogue{Act: act})
	return y
}

// Into writes x W^T + b to y: x (..., in), y (..., out).
func (l Linear) Into(be kernels.Backend, y, x kernels.Tensor) { l.linear(be, y, x, kernels.Epilogue{}) }

// ForwardGated returns gate * (x W^T + b), of x's type: x (..., in), gate (..., out) -> (..., out).
func (l Linear) ForwardGated(be kernels.Backend, x, gate kernels.Tensor) kernels.Tensor {
	y := be.Alloc(x.DType, gate.Shape...)
	l.linear(be, y, x, kernels.Epilogue{Gate: gate})
	return y
}

// AddTo adds gate * (x W^T + b) to the residual stream in place: x (..., in), stream and gate (..., out).
// The zero gate means 1.
func (l Linear) AddTo(be kernels.Backend, stream, x, gate kernels.Tensor) {
	l.linear(be, stream, x, kernels.Epilogue{Residual: stream, Gate: gate})
}

// MLP is the two-layer perceptron of timm: fc1, GELU in its tanh form, fc2.
type MLP struct {
	FC1, FC2 Linear
}

// LoadMLP reads "fc1" (hidden, in) and "fc2" (out, hidden), with biases. An MLP that is too narrow to be split is loaded
// completely on all ranks of tensor parallelism.
func LoadMLP(w *weights.Weights, in, hidden, out int) MLP {
	return LoadMLPOf(w, "fc1", "fc2", in, hidden, out)
}

// LoadMLPOf is LoadMLP for layers with other names.
func LoadMLPOf(w *weights.Weights, first, second string, in, hidden, out int) MLP {
	if w.Ways() > len(layout.SumParts(layout.ColumnUnits(hidden))) {
		w = w.Cut(weights.Cut{})
	}
	columns := w.Hidden(hidden)
	return MLP{
		FC1: LoadRows(w.Sub(first), in, 1, hidden, columns, true),
		FC2: LoadSum(w.Sub(second), hidden, out, columns, ColumnParts(hidden), true),
	}
}

// Forward returns fc2(gelu(fc1(x))): x (..., in) -> (..., out).
func (m MLP) Forward(be kernels.Backend, x kernels.Tensor) kernels.Tensor {
	return m.FC2.Forward(be, m.FC1.Forward(be, x, kernels.GELUTanh), kernels.Identity)
}

// AddTo adds gate * MLP(x) to the residual stream in place; all are (..., C).
func (m MLP) AddTo(be kernels.Backend, stream, x, gate kernels.Tensor) {
	defer be.Scope()()
	m.FC2.AddTo(be, stream, m.FC1.Forward(be, x, kernels.GELUTanh), gate)
}

// LoadRows reads a layer of which this rank has some outputs: the given rows of each group of "weight" (groups out, in), and
// with bias of "bias" (groups out).
func LoadRows(w *weights.Weights, in, groups, out int, rows sequence.Range, bias bool) Linear {
	part := weights.Subset{Groups: groups, Rows: rows}
	l := Linear{W: w.Part("weight", part, groups*out, in), Int8: w.Rounds("weight")}
	if bias {
		l.B = w.Part("bias", part, groups*out)
	}
	return l
}

// LoadSum reads a layer whose inputs are split between the ranks: "weight" (out, in) and, with bias, "bias" (out). This rank
// has the given columns; the ranks add up the sums together. parts are the starts of the parts of a sum.
func LoadSum(w *weights.Weights, in, out int, columns sequence.Range, parts []int, bias bool) Linear {
	l := Linear{cut: w.Ways() > 1, Int8: w.Rounds("weight")}
	l.W = w.Part("weight", weights.Subset{Columns: columns}, out, in)
	if bias {
		l.B = w.Tensor("bias", out)
	}
	for _, at := range parts {
		if at > columns.Lo && at < columns.Hi {
			l.Parts = append(l.Parts, at-columns.Lo)
		}
	}
	return l
}

// linear computes dst = ep(x W^T). If the sums are split, it computes together with the other ranks.
func (l Linear) linear(be kernels.Backend, dst, x kernels.Tensor, ep kernels.Epilogue) {
	ep.Bias, ep.Parts, ep.Int8 = l.B, slices.Clone(l.Parts), l.Int8
	if l.cut && weights.SumAcross(be, dst, x, l.W, ep) {
		return
	}
	be.Linear(dst, x, l.W, ep)
}

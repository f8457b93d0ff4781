package kernels

// Backend runs the operations of the models on one device. Methods enqueue work in order on the backend's own stream and may
// return before the work is done: the host sees results only through Download. The first error (a wrong shape, a lost device,
// no memory) is recorded and later work is dropped; Wait and Download return the error. A backend that has failed stays failed.
// One backend serves one goroutine at a time.
//
// Numbers: storage may be F32, BF16 or F16. Arithmetic is fp32; a result is rounded when it is stored (and where Epilogue says
// so). The order of every reduction depends on the operand shapes alone, so that a row does not depend on its neighbours, the
// batch or the thread count (promise "same bytes").
//
// Slices given to a method (values, ids, key lengths) may be changed as soon as it returns. A tensor must not be used after the
// end of its scope. An empty sum is 0: a product over an empty axis, an attention without valid keys.
//
// Destinations never overlap sources, except that Unary, Binary, Norm and Rope may write onto their first source when both are
// the same view.
type Backend interface {
	// Class names the numeric class, such as "cpu/avx2": backends of one class return the same bits. It is part of every key.
	Class() string
	// Device names the memory that holds the tensors, such as "cpu" or "cuda:0". Weights are loaded once per device; backends
	// of one device accept each other's weights.
	Device() string
	// Capabilities returns the optional abilities of the device.
	Capabilities() Capabilities

	// Weights makes a tensor of little-endian data. The device uses data in place if it can. data must stay readable and
	// unchanged as long as the tensor is in use. The tensor belongs to no scope.
	Weights(dt DType, shape []int, data []byte) (Tensor, error)
	// Alloc returns an uninitialised tensor that lives until the scope open at the call ends.
	Alloc(dt DType, shape ...int) Tensor
	// Scope opens a scope inside the current one; end frees everything allocated in it. Scopes nest.
	Scope() (end func())
	// Upload copies src, row-major, into dst, converting from fp32. src may be reused at once.
	Upload(dst Tensor, src []float32)
	// Download waits for the stream and copies src, row-major, into dst, converting to fp32.
	Download(dst []float32, src Tensor) error
	// Wait waits for the stream and returns the first error since the backend was made.
	Wait() error

	// Copy copies and converts src into dst. Both may be strided; the shapes are equal. src may belong to a peer, another
	// backend of the same kind. Wait must have returned on the peer, and it must not change src until Wait has returned on this
	// backend.
	Copy(dst, src Tensor)
	// Gather copies row ids[i] of table (V, C) to row i of dst (len(ids), C).
	Gather(dst, table Tensor, ids []int32)
	// Linear computes dst (..., N) = x (..., K) times w (N, K) transposed, then the epilogue.
	Linear(dst, x, w Tensor, ep Epilogue)
	// Attention computes softmax(scale q k^T + bias) v. q and dst are (..., Lq, H, D), k and v are
	// (..., Lk, H, D) with the same one or two leading axes; all may be strided.
	Attention(dst, q, k, v Tensor, spec AttentionSpec)
	// Norm normalises x into dst of the same shape.
	Norm(dst, x Tensor, spec NormSpec)
	// Rope rotates neighbouring channels of x (..., D) by given angles (rotary position embedding, Su et
	// al., arXiv 2104.09864): dst[2j] = x[2j] cos[j] - x[2j+1] sin[j], dst[2j+1] = x[2j+1] cos[j] +
	// x[2j] sin[j]. cos and sin are (..., D/2) with x's leading axes, usually expanded from (L, D/2). Where
	// dst is BF16 or F16, the products are rounded to that type before they are added.
	Rope(dst, x, cos, sin Tensor)
	// Unary computes dst = op(x).
	Unary(dst, x Tensor, op UnaryOp)
	// Binary computes dst = a op b; a and b have dst's shape (Expand them to broadcast).
	Binary(dst, a, b Tensor, op BinaryOp)
	// Conv computes a convolution, channels last: of images x (N, H, W, Cin) into dst (N, H', W', Cout)
	// with w (Cout, Cin, KH, KW), or of videos x (N, T, H, W, Cin) into dst (N, T', H', W', Cout) with
	// w (Cout, Cin, KT, KH, KW), as PyTorch stores them.
	Conv(dst, x, w Tensor, spec ConvSpec)
}

// Epilogue describes what Linear does to its product p before it stores it: Residual + Gate * act(p + Bias). Parts that are not
// given are left out. Gate alone makes gated units such as GEGLU: gelu(x w0) first, then its product with x w1 as the gate of
// the second Linear.
//
// Where dst is BF16 or F16, each of p + Bias, act(...), Gate * ... and the sum is rounded to that type, as
// it is between the modules of PyTorch: reduced precision then follows the reference step by step. The same
// holds for the bias and the residual of Conv.
//
// With Parts and Onto, ranks share a sum over K (tensor parallelism) and get the bits of one rank: each part is summed
// separately, and the sums are added in order to Onto, in fp32. The rank with the first parts computes its sums into an F32 dst,
// without the rest of the epilogue, and sends them to the rank with the next parts, which uses them as Onto.
//
// Int8 rounds both operands to 8 bits: each row of x and of w, in each part, is multiplied by 127 / max, where max is the row's
// largest magnitude, and rounded, ties to even. Sums are exact integers. The result is (sum * (max of w / 127)) * (max of x /
// 127), computed in fp32, so every device returns the same bits.
type Epilogue struct {
	Bias     Tensor  // (N), optional
	Act      UnaryOp // Identity by default
	Gate     Tensor  // dst's shape (usually expanded), optional
	Residual Tensor  // dst's shape, optional; may be dst itself
	Parts    []int   // start indexes in K of the parts after the first: ascending, even; none: one part
	Int8     bool    // x and w rounded to 8 bits; needs Capabilities.Int8
	Onto     Tensor  // F32 of dst's shape, optional; may be dst itself
}

// UnaryOp is an elementwise function.
type UnaryOp uint8

// The unary operations.
const (
	Identity UnaryOp = iota
	SiLU             // x * sigmoid(x)
	GELUTanh         // 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), "gelu_new" of transformers
	Sigmoid          // 1 / (1 + e^-x)
	ReLU             // max(x, 0); needs Capabilities.ReLU
	Tanh             // the hyperbolic tangent; needs Capabilities.ReLU
)

// BinaryOp is an elementwise function of two operands.
type BinaryOp uint8

// The binary operations.
const (
	Add BinaryOp = iota
	Mul
)

// AttentionSpec describes an Attention call. Masks are lengths, never matrices.
type AttentionSpec struct {
	Scale   float32 // factor on q k^T; usually 1/sqrt(D), 1 for T5
	KeyLens []int   // valid keys of each entry of the first axis; nil: all Lk. Later keys are never read
	Bias    Tensor  // (H, Lq, Lk) added to the scaled scores, optional (T5's relative positions)
	Int8    bool    // q and k minus the mean of the keys are rounded to 8 bits; needs Capabilities.Int8
}

// NormKind selects the statistics of Norm.
type NormKind uint8

// The norms. LayerNorm and RMSNorm run over the last axis; GroupNorm takes (N, H, W, C) and runs over
// H, W and the C/Groups channels of a group.
const (
	LayerNorm NormKind = iota // (x - mean) / sqrt(var + eps), var biased
	RMSNorm                   // x / sqrt(mean(x^2) + eps)
	GroupNorm
)

// NormSpec describes a Norm call: normalise, times Weight plus Bias, then x (1 + Scale) + Shift, then Act.
//
// RMSNorm can also prepare the queries and keys of rotary attention in one pass: with Cos and Sin it rotates neighbouring
// channels as Rope does, after the Weight or, with RopeFirst, before the norm. The bits equal a call of Norm and a call of Rope
// through dst. Such a call has no Bias, Scale, Shift or Act.
//
// Where dst is BF16 or F16, intermediates are rounded to that type as between the modules of PyTorch: first the norm with its
// Weight and Bias (but RMSNorm is also rounded before its Weight, as in T5 and Llama), then 1 + Scale, the product, the sum,
// and Act.
type NormSpec struct {
	Kind   NormKind
	Eps    float32
	Groups int     // GroupNorm only
	Weight Tensor  // (C), or for RMSNorm x's shape (usually expanded, such as from (2, 1, C)), optional
	Bias   Tensor  // (C), optional
	Scale  Tensor  // x's shape (usually expanded from (B, 1, C)), optional; with Shift
	Shift  Tensor  // the same
	Act    UnaryOp // Identity by default

	Cos, Sin  Tensor // RMSNorm only: (..., C/2) with x's leading axes, see Rope; optional, together
	RopeFirst bool   // rotate before the norm, not after it
}

// ConvSpec describes a Conv call. Padding is zeros, given for each side, because the encoder of AutoencoderKL pads only right
// and bottom, and causal convolutions in time pad only the front.
type ConvSpec struct {
	Bias                     Tensor // (Cout), optional
	Stride                   int    // in height and width; 0 means 1
	StrideT                  int    // in time; 0 means 1
	Top, Left, Bottom, Right int    // zero padding in input pixels (after Upsample)
	Front, Back              int    // zero padding in frames
	Upsample                 int    // nearest-neighbour factor on height and width first; 0 and 1 mean none
	Residual                 Tensor // dst's shape, added to the result, optional; may be dst itself
}

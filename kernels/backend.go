package kernels

// Backend runs the operations of the models on one device. Methods enqueue work in order on the
// backend's own stream and may return before it is done: the host sees results only through Download.
// The first error (a wrong shape, a lost device, no memory) is kept, later work is dropped, and Wait and
// Download return it; a backend that has failed stays failed. One backend serves one goroutine at a time.
//
// Numbers: storage may be F32, BF16 or F16, arithmetic is fp32, rounded where a result is stored (and where
// Epilogue says so). Every reduction has an order fixed by
// the operand shapes alone, so that a row does not depend on its neighbours, the batch or the thread
// count (promise "same bytes").
//
// Slices given to a method (values, ids, key lengths) may be changed as soon as it returns. A tensor must
// not be used after the end of its scope. Where there is nothing to sum the sum is 0: a product over an
// empty axis, an attention without valid keys.
//
// Destinations never overlap sources, except that Unary, Binary, Norm and Rope may write onto their first
// source when both are the same view.
type Backend interface {
	// Class names what the results' last bits depend on, such as "cpu/avx2": it is part of every key.
	Class() string
	// Device names the memory the tensors live in, such as "cpu" or "cuda:0". Weights are loaded once a
	// device; backends of one device accept each other's weights.
	Device() string
	// Capabilities says what only some devices can.
	Capabilities() Capabilities

	// Weights makes a tensor of little-endian data, used in place where the device can. data must stay
	// readable and unchanged as long as the tensor is in use. It belongs to no scope.
	Weights(dt DType, shape []int, data []byte) (Tensor, error)
	// Alloc returns an uninitialised tensor that lives until the scope open at the call ends.
	Alloc(dt DType, shape ...int) Tensor
	// Scope opens a scope inside the present one; end frees everything allocated in it. Scopes nest.
	Scope() (end func())
	// Upload copies src, row-major, into dst, converting from fp32. src may be reused at once.
	Upload(dst Tensor, src []float32)
	// Download waits for the stream and copies src, row-major, into dst, converting to fp32.
	Download(dst []float32, src Tensor) error
	// Wait waits for the stream and returns the first error since the backend was made.
	Wait() error

	// Copy copies and converts src into dst; both may be strided, the shapes are equal. src may be a peer's,
	// another backend of the same kind that was waited for and leaves it alone until this one was too.
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

// Epilogue is what Linear does to its product p before it stores: Residual + Gate * act(p + Bias), each part
// only where it is given. Gate alone makes gated units such as GEGLU: gelu(x w0) first, then its product
// with x w1 as the gate of the second Linear.
//
// Where dst is BF16 or F16, each of p + Bias, act(...), Gate * ... and the sum is rounded to that type, as
// it is between the modules of PyTorch: reduced precision then follows the reference step by step. The same
// holds for the bias and the residual of Conv.
//
// Parts and Onto let workers share a sum over K (tensor parallelism) and get the bits of one worker: each part
// is summed on its own, and the sums are added in order to Onto, in fp32. A worker that has the first parts
// hands its result, an F32 dst without bias and the rest, to the one that has the next as Onto.
//
// Int8 rounds both sides to 8 bits: each row of x and of w, and each part of it, times 127 / its largest magnitude, ties
// to even. Sums are exact integers; one counts (sum * w's largest / 127) * x's largest / 127 in fp32, the same bits
// whatever computes them.
type Epilogue struct {
	Bias     Tensor  // (N), optional
	Act      UnaryOp // Identity by default
	Gate     Tensor  // dst's shape (usually expanded), optional
	Residual Tensor  // dst's shape, optional; may be dst itself
	Parts    []int   // where parts of K begin, but for the first: ascending, even; none: one part
	Int8     bool    // x and w rounded to 8 bits, of devices with Capabilities.Int8
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
	ReLU             // max(x, 0), of devices with Capabilities.ReLU
	Tanh             // the hyperbolic tangent, of devices with Capabilities.ReLU
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
	Scale   float32 // factor on q k^T; 1/sqrt(D) as a rule, 1 for T5
	KeyLens []int   // valid keys of each entry of the first axis; nil: all Lk. Keys beyond are never read
	Bias    Tensor  // (H, Lq, Lk) added to the scaled scores, optional (T5's relative positions)
	Int8    bool    // q and k, less the mean of the keys, rounded to 8 bits, of devices with Capabilities.Int8
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
// RMSNorm also makes the queries and keys of rotary attention in one pass: with Cos and Sin it turns neighbouring
// channels as Rope does, after the Weight or, with RopeFirst, before the norm. The bits are those of Norm and Rope
// through dst one after the other. Such a call has no Bias, Scale, Shift or Act.
//
// Where dst is BF16 or F16, intermediates are rounded to that type as between the modules of PyTorch: the
// norm with its Weight and Bias is one (but RMSNorm is rounded before its Weight too, as T5 and Llama have it),
// then come 1 + Scale, the product, the sum, and Act.
type NormSpec struct {
	Kind   NormKind
	Eps    float32
	Groups int     // GroupNorm only
	Weight Tensor  // (C), or of RMSNorm x's shape (usually expanded, such as from (2, 1, C)), optional
	Bias   Tensor  // (C), optional
	Scale  Tensor  // x's shape (usually expanded from (B, 1, C)), optional; with Shift
	Shift  Tensor  // the same
	Act    UnaryOp // Identity by default

	Cos, Sin  Tensor // RMSNorm only: (..., C/2) with x's leading axes, see Rope; optional, together
	RopeFirst bool   // turn before the norm, not after it
}

// ConvSpec describes a Conv call. Padding is zeros and given for each side, because the encoder of
// AutoencoderKL pads only right and bottom, and causal convolutions in time only the front.
type ConvSpec struct {
	Bias                     Tensor // (Cout), optional
	Stride                   int    // in height and width; 0 means 1
	StrideT                  int    // in time; 0 means 1
	Top, Left, Bottom, Right int    // zero padding in input pixels (after Upsample)
	Front, Back              int    // zero padding in frames
	Upsample                 int    // nearest-neighbour factor on height and width first; 0 and 1 mean none
	Residual                 Tensor // dst's shape, added to the result, optional; may be dst itself
}

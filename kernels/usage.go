package kernels

import "time"

// Op is a family of operations that Metered counts together.
type Op uint8

// The families.
const (
	OpLinear Op = iota
	OpAttention
	OpConv
	OpNorm
	OpRope
	OpElementwise // Unary and Binary
	OpCopy        // Copy and Gather
	OpTransfer    // Upload and Download
	OpDecode      // files to pixels, on the host while the device computes
	OpResize      // pixels to the size of a row, on the host while the device computes
	ops
)

var opNames = [ops]string{"linear", "attention", "conv", "norm", "rope", "elementwise", "copy", "transfer",
	"decode", "resize"}

// IsBeside reports whether the host does the work while the device computes.
func (o Op) IsBeside() bool { return o == OpDecode || o == OpResize }

// String returns the name used in reports.
func (o Op) String() string { return opNames[o] }

// Count holds the work of one family of operations.
type Count struct {
	Calls int64
	Time  time.Duration // on the device
	FLOP  float64       // of products only: a multiplication and an addition are two
	Bytes int64         // of the operands, each read or written once
}

// Usage is what operations did, by family.
type Usage [ops]Count

// Add adds what v counts.
func (u *Usage) Add(v Usage) {
	for i := range u {
		u[i].add(v[i])
	}
}

func (c *Count) add(d Count) {
	c.Calls += d.Calls
	c.Time += d.Time
	c.FLOP += d.FLOP
	c.Bytes += d.Bytes
}

// FLOP returns the floating-point operations of all families.
func (u *Usage) FLOP() float64 {
	sum := 0.0
	for i := range u {
		sum += u[i].FLOP
	}
	return sum
}

// viewBytes returns the bytes of the elements that views reach, repeated ones once.
func viewBytes(views ...Tensor) int64 {
	var sum int64
	for i := range views {
		t := &views[i]
		if t.IsZero() {
			continue
		}
		n := int64(t.DType.Size())
		for axis, d := range t.Shape {
			if t.Strides[axis] != 0 || d == 0 {
				n *= int64(d)
			}
		}
		sum += n
	}
	return sum
}

// dimFromEnd returns the length of the i-th axis from the end, or 0 if there is none, because operands are counted before the backend
// checks them.
func dimFromEnd(t Tensor, i int) int {
	if i < 1 || i > len(t.Shape) {
		return 0
	}
	return t.Shape[len(t.Shape)-i]
}

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
	// Elements is the number of the operands' elements, each read or written once.
	Elements int64
	// Rows is the number of rows of norms, and of copies that are not contiguous. Short rows cost more than their elements.
	Rows int64
	// Typed divides the products by the type of their factors.
	Typed [ProductTypes]Product
}

// Product counts the FLOP of products, and the elements of their operands.
type Product struct {
	FLOP     float64
	Elements int64
}

// The types of the factors of a product: a DType, or Int8 for factors that are rounded to 8 bits.
const (
	Int8         = F16 + 1
	ProductTypes = int(Int8) + 1
)

// product returns c with the FLOP of a product of factors of a type.
func (c Count) product(flop float64, factors DType) Count {
	c.FLOP, c.Typed[factors] = flop, Product{flop, c.Elements}
	return c
}

// productType returns the type that two factors share. Factors of different types are widened to F32.
func productType(a, b Tensor, int8 bool) DType {
	switch {
	case int8:
		return Int8
	case a.DType == b.DType && a.DType < Int8:
		return a.DType
	}
	return F32
}

// Usage holds the counts of each family of operations.
type Usage [ops]Count

// Add adds v to u.
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
	c.Elements += d.Elements
	c.Rows += d.Rows
	for i, p := range d.Typed {
		c.Typed[i].FLOP += p.FLOP
		c.Typed[i].Elements += p.Elements
	}
}

// FLOP returns the floating-point operations of all families.
func (u *Usage) FLOP() float64 {
	sum := 0.0
	for i := range u {
		sum += u[i].FLOP
	}
	return sum
}

// moving counts the elements of the views and their bytes. An element that a view repeats counts once.
func moving(views ...Tensor) (c Count) {
	for i := range views {
		t := &views[i]
		if t.IsZero() {
			continue
		}
		n := int64(1)
		for axis, d := range t.Shape {
			if t.Strides[axis] != 0 || d == 0 {
				n *= int64(d)
			}
		}
		c.Elements += n
		c.Bytes += n * int64(t.DType.Size())
	}
	return c
}

// byRow returns c with the rows of t, along its last axis.
func (c Count) byRow(t Tensor) Count {
	c.Rows = int64(t.Len() / max(1, dimFromEnd(t, 1)))
	return c
}

// dimFromEnd returns the length of the i-th axis from the end, or 0 if there is none, because operands are counted before the backend
// checks them.
func dimFromEnd(t Tensor, i int) int {
	if i < 1 || i > len(t.Shape) {
		return 0
	}
	return t.Shape[len(t.Shape)-i]
}

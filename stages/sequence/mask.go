package sequence

import (
	"fmt"
	"iter"
)

// Mask says which tokens of a grid (T, H, W), flattened in this order, are valid: those below the valid size on each axis. It
// is for a latent that was padded to the grid. Six numbers replace the matrix that models usually carry, and any rank can test
// any token by its global index.
type Mask struct {
	Grid  [3]int // T, H, W
	Valid [3]int // each at most the grid's
}

// NewMask returns the mask. It returns an error for invalid sizes.
func NewMask(grid, valid [3]int) (Mask, error) {
	for i, axis := range []string{"frames", "rows", "columns"} {
		if valid[i] < 0 || valid[i] > grid[i] || grid[i] < 1 || grid[i] > maxFrames {
			return Mask{}, fmt.Errorf("mask: %d of %d %s are valid: give 0 to %d of 1 to %d",
				valid[i], grid[i], axis, max(0, grid[i]), maxFrames)
		}
	}
	if grid[0]*grid[1] > maxTokens/grid[2] {
		return Mask{}, fmt.Errorf("mask: a grid of %v is more than %d tokens", grid, maxTokens)
	}
	return Mask{grid, valid}, nil
}

// Tokens returns the number of tokens in the grid.
func (m Mask) Tokens() int { return m.Grid[0] * m.Grid[1] * m.Grid[2] }

// Count returns the number of valid tokens.
func (m Mask) Count() int { return m.Valid[0] * m.Valid[1] * m.Valid[2] }

// Has reports whether token i is valid.
func (m Mask) Has(i int) bool {
	h, w := m.Grid[1], m.Grid[2]
	return i/(h*w) < m.Valid[0] && i/w%h < m.Valid[1] && i%w < m.Valid[2]
}

// Runs yields the valid tokens of r as ranges in order. A kernel that knows only lengths gets the rows of these ranges one
// after another. Their order is the order of the tokens, so sums keep their order.
func (m Mask) Runs(r Range) iter.Seq[Range] {
	return func(yield func(Range) bool) {
		h, w := m.Grid[1], m.Grid[2]
		r := r.And(Range{0, m.Valid[0] * h * w})
		if m.Count() == 0 {
			return
		}
		for i := r.Lo; i < r.Hi; {
			switch t, y, x := i/(h*w), i/w%h, i%w; {
			case y >= m.Valid[1]:
				i = (t + 1) * h * w
			case x >= m.Valid[2]:
				i += w - x
			default:
				end := min(r.Hi, i+m.Valid[2]-x)
				if !yield(Range{i, end}) {
					return
				}
				i = end
			}
		}
	}
}

// DenseBytes returns the size of the mask as a matrix with one byte for each pair of tokens, and with one byte for each token.
// Every worker and every layer that would have a copy saves it.
func (m Mask) DenseBytes() (pairs, tokens int64) {
	n := int64(m.Tokens())
	return n * n, n
}

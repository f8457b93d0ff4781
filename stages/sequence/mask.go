package sequence

import (
	"fmt"
	"iter"
)

// Mask says which tokens of a grid (T, H, W), flattened in this order, are valid: those below the valid sizes
// on each axis. It is what a latent that was padded to the grid needs. Six numbers replace the matrix that
// models carry around; any rank can ask about any token by its global index.
type Mask struct {
	Grid  [3]int // T, H, W
	Valid [3]int // each at most that of the grid
}

// NewMask checks the sizes.
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

// Tokens returns how many tokens the grid has.
func (m Mask) Tokens() int { return m.Grid[0] * m.Grid[1] * m.Grid[2] }

// Count returns how many are valid.
func (m Mask) Count() int { return m.Valid[0] * m.Valid[1] * m.Valid[2] }

// Has reports whether token i is valid.
func (m Mask) Has(i int) bool {
	h, w := m.Grid[1], m.Grid[2]
	return i/(h*w) < m.Valid[0] && i/w%h < m.Valid[1] && i%w < m.Valid[2]
}

// Runs yields the valid tokens of r as ranges in order. A kernel that knows lengths only takes the rows of
// these ranges one after the other; their order is that of the tokens, so sums keep theirs.
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

// DenseBytes returns what the mask would take as a matrix of one byte for each pair of tokens, and as one
// byte for each token: what is saved on every worker and in every layer that would carry a copy.
func (m Mask) DenseBytes() (pairs, tokens int64) {
	n := int64(m.Tokens())
	return n * n, n
}

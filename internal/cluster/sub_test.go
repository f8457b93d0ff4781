package cluster

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"latentbeam/kernels"
)

// TestSub: six ranks form a grid of 2 x 3. They exchange in groups along rows and columns, and in groups inside a row, of which one has one
// rank only. Sub refuses lists that cannot be a group: empty, with a rank twice or unknown, or without the rank itself.
func TestSub(t *testing.T) {
	everywhere(t, func(t *testing.T, s suite) {
		err := s.run(t, 6, func(g *kernels.Group, be kernels.Backend) error {
			row, col := g.Rank()/3, g.Rank()%3
			across, err := g.Sub([]int{3*row + 2, 3 * row, 3*row + 1}, 0) // not in the order of the ranks
			if err != nil {
				return err
			}
			down, err := g.Sub([]int{col, col + 3}, time.Hour)
			if err != nil {
				return err
			}
			few := []int{1}
			if across.Rank() != 1 {
				few = []int{0, 2}
			}
			pair, err := across.Sub(few, 0)
			if err != nil || pair.Size() != len(few) {
				return errors.Join(err, errors.New("a pair of the row, and one alone"))
			}
			for step := range 3 {
				across.Step(step)
				if err := checkGather(across, be, 3*row); err != nil {
					return err
				}
				if err := checkGather(pair, be, 100*row); err != nil {
					return err
				}
				if err := checkGather(down, be, 10*col); err != nil {
					return err
				}
			}
			for _, wrong := range [][]int{{}, {0, 0}, {6, g.Rank()}, {-1, g.Rank()}, {(g.Rank() + 1) % 6}} {
				if _, err := g.Sub(wrong, 0); err == nil {
					return fmt.Errorf("%v made a group", wrong)
				}
			}
			return g.Barrier("end")
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// checkGather gathers a tensor of each rank on all ranks of g, and checks the values, which count up from base + rank.
func checkGather(g *kernels.Group, be kernels.Backend, base int) error {
	defer be.Scope()()
	all := make([]kernels.Tensor, g.Size())
	for r := range all {
		all[r] = filled(be, kernels.F32, 200, 5)
		if r == g.Rank() {
			all[r] = filled(be, kernels.F32, base+r, 5)
		}
	}
	if err := g.AllGather("numbers", all); err != nil {
		return err
	}
	for r, x := range all {
		if err := expect(be, x, func(i int) float32 { return float32((base + r + i) % 251) }); err != nil {
			return err
		}
	}
	return nil
}

// TestSubEndsTogether: four ranks form two groups inside their group. A rank that fails in one of them ends the ranks of the other, too.
func TestSubEndsTogether(t *testing.T) {
	everywhere(t, func(t *testing.T, s suite) {
		failure := errors.New("a rank of the first row fails")
		began := time.Now()
		err := s.run(t, 4, func(g *kernels.Group, be kernels.Backend) error {
			row := g.Rank() / 2
			sub, err := g.Sub([]int{2 * row, 2*row + 1}, 0)
			if err != nil {
				return err
			}
			if err := sub.Barrier("before"); err != nil || g.Rank() == 1 {
				return errors.Join(err, failure)
			}
			for { // until the other row has failed
				if err := sub.Barrier("after"); err != nil {
					return err
				}
			}
		})
		if err == nil || !strings.Contains(err.Error(), failure.Error()) {
			t.Errorf("got error %v, want %q", err, failure)
		}
		if took := time.Since(began); took > patience/2 {
			t.Errorf("the other ranks ended after %v, want at most %v", took, patience/2)
		}
	})
}

package cluster

import (
	"errors"
	"fmt"
	"testing"

	"latentbeam/kernels"
	"latentbeam/schemas/fault"
)

// TestNotFiniteOnAllRanks: one of four ranks gives up. If its cause is fault.NotFinite (a NaN in the results), the errors of all ranks are
// NotFinite, else none is.
func TestNotFiniteOnAllRanks(t *testing.T) {
	step := errors.New("step 3 of 4")
	for _, cause := range []error{step, fmt.Errorf("denoise: %w", fault.NotFinite(step))} {
		everywhere(t, func(t *testing.T, s suite) {
			ends, devices := s.ends(t, 4)
			defer closeAll(ends)
			stopped := make(chan error, 4)
			for i, end := range ends {
				go func() {
					g := kernels.NewGroup(t.Context(), end, devices[i], s.patience)
					err := g.Barrier("work")
					if err == nil && i == 2 {
						end.Abort(cause)
					}
					if err == nil {
						err = g.Barrier("more")
					}
					stopped <- err
				}()
			}
			for range 4 {
				if err := <-stopped; err == nil || fault.IsNotFinite(err) != fault.IsNotFinite(cause) {
					t.Errorf("a rank gave up because of %v: got error %v (not finite: %v)", cause, err, fault.IsNotFinite(err))
				}
			}
		})
	}
}

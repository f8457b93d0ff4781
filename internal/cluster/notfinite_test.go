package cluster

import (
	"errors"
	"fmt"
	"testing"

	"latentbeam/kernels"
	"latentbeam/schemas/fault"
)

// TestNotFiniteOnAllRanks: that a rank gave up because of what is not finite is known on all of them; of another cause
// nobody takes it for that.
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
					t.Errorf("%v where a rank gave up of %v", err, cause)
				}
			}
		})
	}
}

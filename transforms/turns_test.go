package transforms

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
)

// TestLateStagesGoFirst lets batches of several stages wait for one device.
func TestLateStagesGoFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turns turns
		first, err := turns.acquire(t.Context(), 0, 1)
		if err != nil {
			t.Fatal(err)
		}
		order := make(chan int, 4)
		for _, stage := range []int{1, 0, 2, 1} {
			go func() {
				done, err := turns.acquire(t.Context(), stage, 1)
				if err != nil {
					t.Error(err)
					return
				}
				order <- stage
				done()
			}()
			synctest.Wait()
		}
		first()
		synctest.Wait()
		close(order)
		var got []int
		for stage := range order {
			got = append(got, stage)
		}
		if !slices.Equal(got, []int{2, 1, 1, 0}) {
			t.Errorf("stages went in the order %v, want 2 1 1 0", got)
		}
	})
}

// TestAWaitThatEndsLosesNoDevice cancels a waiting batch and lets another one have its turn.
func TestAWaitThatEndsLosesNoDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turns turns
		first, err := turns.acquire(t.Context(), 0, 1)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			if _, err := turns.acquire(ctx, 1, 1); err == nil {
				t.Error("a cancelled wait was granted")
			}
		}()
		synctest.Wait()
		cancel()
		synctest.Wait()
		first()
		if _, err := turns.acquire(t.Context(), 0, 1); err != nil {
			t.Error(err)
		}
	})
}

package transforms

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
)

// TestLateStagesGoFirst lets batches of several stages wait for one device.
func TestLateStagesGoFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turns turns
		_, first, err := turns.acquire(t.Context(), 0, 1, 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		order := make(chan int, 4)
		for _, stage := range []int{1, 0, 2, 1} {
			go func() {
				_, done, err := turns.acquire(t.Context(), stage, 1, 1, 1)
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
		_, first, err := turns.acquire(t.Context(), 0, 1, 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			if _, _, err := turns.acquire(ctx, 1, 1, 1, 1); err == nil {
				t.Error("a cancelled wait was granted")
			}
		}()
		synctest.Wait()
		cancel()
		synctest.Wait()
		first()
		if _, _, err := turns.acquire(t.Context(), 0, 1, 1, 1); err != nil {
			t.Error(err)
		}
	})
}

// TestSetsWaitTogether: a batch gets as many devices as are free between what it needs and what it can use, and
// one that needs more than are free is not passed by those behind it.
func TestSetsWaitTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turns turns
		got := make(chan string, 4)
		ask := func(name string, stage, least, most int) func() {
			end := make(chan struct{})
			go func() {
				n, done, err := turns.acquire(t.Context(), stage, 4, least, most)
				if err != nil {
					t.Error(err)
					return
				}
				got <- fmt.Sprint(name, n)
				<-end
				done()
			}()
			synctest.Wait()
			return func() { close(end); synctest.Wait() }
		}
		one := ask("one", 1, 1, 1)
		tail := ask("tail", 1, 1, 2)
		wide := ask("wide", 1, 3, 3)
		early := ask("early", 0, 2, 2)
		one()
		tail()
		wide()
		early()
		close(got)
		var order []string
		for s := range got {
			order = append(order, s)
		}
		if !slices.Equal(order, []string{"one1", "tail2", "wide3", "early2"}) {
			t.Errorf("granted %v", order)
		}
	})
}

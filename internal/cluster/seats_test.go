package cluster

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
)

// TestOver: a process may say, by CloseGroup, that its rank will not join a group. Ranks that wait for it get an error at once, whether it says
// so before or while they wait, and it cannot join the group later.
func TestOver(t *testing.T) {
	far, err := Listen("127.0.0.1:0", token)
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	near := NewNode(token)
	before := runtime.NumGoroutine()
	for _, early := range []bool{true, false} {
		table := NewTable([]string{"", far.Addr()})
		if early {
			far.CloseGroup(table)
		} else {
			time.AfterFunc(50*time.Millisecond, func() { far.CloseGroup(table) })
		}
		ends, err := near.Join(t.Context(), table, []int{0}, nil)
		if err != nil {
			t.Fatal(err)
		}
		g := kernels.NewGroup(t.Context(), ends[0], cpu.New(1), patience)
		began := time.Now()
		if err := g.Barrier("test"); err == nil || time.Since(began) > patience/2 {
			t.Errorf("got error %v after %v, want one within %v", err, time.Since(began), patience/2)
		}
		if err := ends[0].(*mesh).Close(); err != nil {
			t.Error(err)
		}
		if _, err := far.Join(t.Context(), table, []int{1}, nil); err == nil || !strings.Contains(err.Error(), "has ended here") {
			t.Errorf("Join after CloseGroup: got %v", err)
		}
	}
	checkGoroutines(t, before)
}

package system

import (
	"runtime"
	"slices"
	"testing"
)

// TestNumbers: a list keeps its numbers in order while it grows, and uses no memory of the Go heap.
func TestNumbers(t *testing.T) {
	const n = 1_000_000
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	l := &Numbers{}
	for i := range uint64(n) {
		l.Add(n - i)
	}
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; runtime.GOOS == "linux" && grown > n {
		t.Errorf("%d numbers take %d bytes of the heap, want less than a byte each", n, grown)
	}
	all := l.All()
	if len(all) != n {
		t.Fatalf("got %d numbers, want %d", len(all), n)
	}
	for i, v := range all {
		if v != uint64(n-i) {
			t.Fatalf("number %d is %d, want %d", i, v, n-i)
		}
	}
	slices.Sort(all)
	if all[0] != 1 || all[n-1] != n {
		t.Errorf("the sorted list goes from %d to %d, want 1 to %d", all[0], all[n-1], n)
	}
	l.Free()
	l.Free() // a second call does nothing
	if l.Add(7); !slices.Equal(l.All(), []uint64{7}) {
		t.Errorf("after Free and Add(7) the list has %v", l.All())
	}
}

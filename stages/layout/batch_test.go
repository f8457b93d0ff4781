package layout

import (
	"testing"

	"latentbeam/stages/cost"
)

// TestBatchSize: a batch of n elements needs 100 + 10 n bytes. It grows up to the target, to the user's bound or to MaxBatch. One
// element may exceed the target, but never the limit.
func TestBatchSize(t *testing.T) {
	need := func(n int) (int64, error) { return 100 + int64(n)*10, nil }
	for _, c := range []struct {
		name  string
		m     cost.Memory
		limit int
		want  int
	}{
		{"fills the target", cost.Memory{Target: 150, Limit: 1000}, 0, 5},
		{"stops at the bound of the user", cost.Memory{Target: 150, Limit: 1000}, 3, 3},
		{"one element beyond the target", cost.Memory{Target: 50, Limit: 1000}, 0, 1},
		{"the limit holds although the target is higher", cost.Memory{Target: 1000, Limit: 130}, 0, 3},
		{"never above MaxBatch", cost.Memory{Target: 1 << 40, Limit: 1 << 40}, 0, MaxBatch},
	} {
		got, err := BatchSize(c.m, c.limit, need)
		if err != nil || got != c.want {
			t.Errorf("%s: got a batch of %d and error %v, want %d", c.name, got, err, c.want)
		}
	}
	if _, err := BatchSize(cost.Memory{Target: 50, Limit: 100}, 0, need); err == nil {
		t.Error("an element that does not fit is accepted")
	}
}

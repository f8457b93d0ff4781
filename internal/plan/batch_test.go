package plan

import "testing"

func TestBatchSize(t *testing.T) {
	need := func(n int) (int64, error) { return 100 + int64(n)*10, nil }
	for _, c := range []struct {
		name  string
		m     Memory
		limit int
		want  int
	}{
		{"fills the target", Memory{Target: 150, Limit: 1000}, 0, 5},
		{"stops at the bound of the user", Memory{Target: 150, Limit: 1000}, 3, 3},
		{"one element beyond the target", Memory{Target: 50, Limit: 1000}, 0, 1},
		{"the limit holds although the target is higher", Memory{Target: 1000, Limit: 130}, 0, 3},
		{"never above MaxBatch", Memory{Target: 1 << 40, Limit: 1 << 40}, 0, MaxBatch},
	} {
		got, err := BatchSize(c.m, c.limit, need)
		if err != nil || got != c.want {
			t.Errorf("%s: %d, %v, want %d", c.name, got, err, c.want)
		}
	}
	if _, err := BatchSize(Memory{Target: 50, Limit: 100}, 0, need); err == nil {
		t.Error("an element that does not fit is accepted")
	}
}

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{7: "7 B", 1536: "1.5 KiB", 3 << 30: "3.0 GiB"} {
		if got := Bytes(n); got != want {
			t.Errorf("Bytes(%d) = %q, want %q", n, got, want)
		}
	}
}

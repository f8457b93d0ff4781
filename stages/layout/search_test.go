package layout

import "testing"

// TestSlower: Slower says in words how a time a compares with a time b: no faster, in percent, or as a multiple if a is more than
// twice b.
func TestSlower(t *testing.T) {
	for _, c := range []struct {
		a, b float64
		want string
	}{
		{1, 1, "no faster"}, {1.005, 1, "0.5% slower"}, {2, 1, "100.0% slower"}, {24.06, 1, "24.1 times as long"},
		{1, 1.25, "25.0% faster"},
	} {
		if got := Slower(c.a, c.b); got != c.want {
			t.Errorf("Slower(%g, %g) = %q, want %q", c.a, c.b, got, c.want)
		}
	}
}

package layout

import "testing"

// TestSlower: how much slower a plan is, in the form that is easiest to read.
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

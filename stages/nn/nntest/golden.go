package nntest

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"
)

// GoldenEnv names a file in the format of testdata/golden/open-sora.json that is tested instead of it.
const GoldenEnv = "LATENTBEAM_GOLDEN"

// OpenSora returns the cases of the file that GoldenEnv names, else of the committed file at path.
func OpenSora(t testing.TB, path string) map[string]json.RawMessage {
	t.Helper()
	if other := os.Getenv(GoldenEnv); other != "" {
		path = other
	}
	return Golden(t, path)
}

// Read returns the bytes of the file at path.
func Read(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Golden returns the cases of a golden file by name, without "_about".
func Golden(t testing.TB, path string) map[string]json.RawMessage {
	t.Helper()
	cases := map[string]json.RawMessage{}
	if err := json.Unmarshal(Read(t, path), &cases); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	delete(cases, "_about")
	return cases
}

// Decode reads one case into v.
func Decode(t testing.TB, data json.RawMessage, v any) {
	t.Helper()
	if err := json.Unmarshal(data, v); err != nil {
		t.Fatalf("golden case: %v", err)
	}
}

// WantError fails the test unless err contains want; an empty want means no error.
func WantError(t testing.TB, what string, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("%s: error %v", what, err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("%s: error %v does not say %q", what, err, want)
	}
}

// MaxDiff returns the largest absolute difference of got and want, and the largest absolute value of want. If the lengths
// differ or a difference is a NaN, the difference is 1e30.
func MaxDiff(got, want []float32) (diff, largest float64) {
	const apart = 1e30
	if len(got) != len(want) {
		return apart, 1
	}
	for i, w := range want {
		d := float64(got[i]) - float64(w)
		if d != d {
			return apart, 1
		}
		diff = max(diff, d, -d)
		largest = max(largest, float64(w), -float64(w))
	}
	return diff, largest
}

// RelativeRMS returns the root mean square of got - want, divided by the root mean square of want.
func RelativeRMS(got, want []float32) float64 {
	var diff, all float64
	for i, w := range want {
		d := float64(got[i]) - float64(w)
		diff, all = diff+d*d, all+float64(w)*float64(w)
	}
	return math.Sqrt(diff / all)
}

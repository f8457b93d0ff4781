package testaid

import (
	"os"
	"strconv"
	"testing"
)

// Count returns the number of repetitions of a test: the value of an environment variable, or else usual.
func Count(t testing.TB, variable string, usual int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s is %q: give a whole number from 1", variable, text)
	}
	return n
}

package testaid

import (
	"os"
	"strconv"
	"testing"
)

// Count returns how often a test of a promise does something: the number in an environment variable, or else what is usual.
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

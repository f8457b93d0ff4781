package storetest

import "testing"

// TestMemory: the laws are not about directories.
func TestMemory(t *testing.T) {
	Run(t, func(testing.TB) Output { return NewMemory().Output() })
}

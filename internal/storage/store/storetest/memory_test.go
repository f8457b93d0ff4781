package storetest

import "testing"

// TestMemory: the store in memory keeps the laws, so the laws do not depend on directories.
func TestMemory(t *testing.T) {
	Run(t, func(testing.TB) Output { return NewMemory().Output() })
}

//go:build !amd64

package cpu

// int8SetsHere returns the sets of instructions of this processor.
func int8SetsHere() []*int8Set { return []*int8Set{int8Go} }

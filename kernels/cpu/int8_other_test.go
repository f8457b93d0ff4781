//go:build !amd64

package cpu

// int8SetsHere are those that this processor has.
func int8SetsHere() []*int8Set { return []*int8Set{int8Go} }

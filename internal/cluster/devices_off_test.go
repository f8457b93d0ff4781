//go:build !cuda || !linux

package cluster

import "testing"

// onDevices runs f over linked GPUs, where the tests are built with them.
func onDevices(*testing.T, func(t *testing.T, s suite)) {}

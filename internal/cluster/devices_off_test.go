//go:build !cuda || !linux

package cluster

import "testing"

// onDevices does nothing: without the build tag cuda there are no GPUs.
func onDevices(*testing.T, func(t *testing.T, s suite)) {}

//go:build !amd64

package cpu

import "runtime"

// pause lets others run.
func pause(uint32) { runtime.Gosched() }

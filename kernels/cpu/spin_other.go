//go:build !amd64

package cpu

import "runtime"

// pause lets other goroutines run.
func pause(uint32) { runtime.Gosched() }

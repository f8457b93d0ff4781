//go:build !linux

package cpu

import (
	"os"
	"time"
)

// mapFile reads a whole file, because it cannot be mapped on these systems.
func mapFile(path string, _ int) ([]byte, error) { return os.ReadFile(path) }

// processorTime returns 0: it is not measured on these systems.
func processorTime() time.Duration { return 0 }

//go:build !linux

package cpu

import "os"

func mapFile(path string, _ int) ([]byte, error) { return os.ReadFile(path) }

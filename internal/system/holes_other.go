//go:build !linux

package system

import "os"

// Written returns the size of a file. On this system it does not find holes.
func Written(path string) (int64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

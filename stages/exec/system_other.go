//go:build !linux

package exec

import (
	"errors"
	"runtime"
)

// supported returns an error if this system cannot run programs.
func supported() error {
	if runtime.GOOS == "windows" {
		return errors.New("programs as stages need file descriptors 3 and 4, which " + runtime.GOOS + " does not pass on")
	}
	return nil
}

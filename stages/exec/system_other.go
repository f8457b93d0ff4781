//go:build !linux

package exec

import (
	"errors"
	"runtime"
)

// supported says why this system cannot run programs, nil: it can.
func supported() error {
	if runtime.GOOS == "windows" {
		return errors.New("programs as stages need file descriptors 3 and 4, which " + runtime.GOOS + " does not pass on")
	}
	return nil
}

// room returns 0: this system has no directory in memory that everybody may use.
func room(string) int64 { return 0 }

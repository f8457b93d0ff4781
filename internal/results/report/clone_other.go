//go:build !linux

package report

import (
	"errors"
	"os"
)

// clone returns an error: only Linux can share the blocks of files.
func clone(*os.Root, string, string) error { return errors.ErrUnsupported }

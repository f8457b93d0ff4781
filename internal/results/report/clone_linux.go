package report

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// clone makes a copy that shares the blocks of the file from. It returns an error if the file system cannot do this.
func clone(root *os.Root, from, to string) error {
	in, err := root.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := root.Create(to)
	if err != nil {
		return err
	}
	err = errors.Join(unix.IoctlFileClone(int(out.Fd()), int(in.Fd())), out.Close())
	if err != nil {
		_ = root.Remove(to) // the caller makes a link or a copy instead
	}
	return err
}

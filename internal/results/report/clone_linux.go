package report

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// clone makes a file that shares the blocks of another, where the file system can.
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
		_ = root.Remove(to) // a link or a copy takes its place
	}
	return err
}

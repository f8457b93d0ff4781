package dir

import (
	"errors"

	"golang.org/x/sys/unix"
)

// renameNoReplace renames inside one directory. The directory is opened through os.Root, so the call cannot leave the output.
func (d *Dir) renameNoReplace(dir, from, to string) error {
	f, err := d.root.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	fd := int(f.Fd())
	err = unix.Renameat2(fd, from, fd, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP) {
		return errNoReplaceUnsupported
	}
	return err
}

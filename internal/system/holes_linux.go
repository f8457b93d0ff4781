package system

import (
	"errors"

	"golang.org/x/sys/unix"
)

// maxExtents is the most extents of a file that Written inspects; the rest counts as written.
const maxExtents = 1 << 16

// Written returns how many bytes of a file were ever written, which for a sparse file is less than its size. It returns the size if
// the file system does not know.
func Written(path string) (int64, error) {
	f, err := OpenRegular(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	written, at := int64(0), int64(0)
	for range maxExtents {
		data, err := unix.Seek(int(f.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) { // only a hole follows
			return written, nil
		}
		if err != nil {
			return info.Size(), nil
		}
		hole, err := unix.Seek(int(f.Fd()), data, unix.SEEK_HOLE)
		if err != nil {
			return info.Size(), nil
		}
		written, at = written+hole-data, hole
	}
	return min(info.Size(), written+info.Size()-at), nil
}

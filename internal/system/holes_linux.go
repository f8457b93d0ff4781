package system

import (
	"errors"

	"golang.org/x/sys/unix"
)

// mostExtents bounds the parts of a file that Written looks at.
const mostExtents = 1 << 16

// Written is how many bytes of a file were ever written: a sparse file has fewer than its size says. It is the size where the file
// system does not tell.
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
	for range mostExtents {
		data, err := unix.Seek(int(f.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) { // a hole to the end
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

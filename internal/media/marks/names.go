package marks

import (
	"encoding/binary"
	"io"
	"os"
	"slices"
	"strings"
)

// maxNamed limits how much of a file is read to list its marks, in bytes: a whole picture, or the boxes of an mp4 without its
// frames.
const maxNamed = 64 << 20

// Names lists the marks of synthetic media in a file, from any program, such as "aigc, iptc"; "" for none, and for files that
// are not mp4, png or jpeg. It does not read the frames of an mp4, so it does not check signatures.
func Names(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return "" // the reader of the file reports the error
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	var head [12]byte
	if n, _ := f.ReadAt(head[:], 0); !IsMedia(head[:n]) {
		return ""
	}
	var data []byte
	if string(head[4:8]) == "ftyp" {
		data = withoutFrames(f, info.Size())
	} else if info.Size() <= maxNamed {
		data, _ = io.ReadAll(io.NewSectionReader(f, 0, info.Size()))
	}
	found, _ := Inspect(data) // as far as it can be read
	var names []string
	for _, m := range found {
		if m.Synthetic() && !slices.Contains(names, m.Name) {
			names = append(names, m.Name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// withoutFrames reads the boxes of an mp4 that contain marks: ftyp, moov and uuid.
func withoutFrames(f io.ReaderAt, length int64) (out []byte) {
	var head [16]byte
	for at := int64(0); at+8 <= length; {
		if n, _ := f.ReadAt(head[:], at); n < 8 {
			return out
		}
		size, kind := int64(binary.BigEndian.Uint32(head[:])), string(head[4:8])
		switch {
		case size == 1:
			size = int64(binary.BigEndian.Uint64(head[8:]))
		case size == 0:
			size = length - at
		}
		if size < 8 || size > length-at {
			return out
		}
		if kind == "ftyp" || kind == "moov" || kind == "uuid" {
			if int64(len(out))+size > maxNamed {
				return out
			}
			part := make([]byte, size)
			if _, err := f.ReadAt(part, at); err != nil {
				return out
			}
			out = append(out, part...)
		}
		at += size
	}
	return out
}

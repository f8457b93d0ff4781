package torchpickle

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// Signatures and lengths of the zip format (PKWARE APPNOTE.TXT, sections 4.3.7 to 4.3.16).
const (
	localMark, localLen     = "PK\x03\x04", 30
	centralMark, centralLen = "PK\x01\x02", 46
	endMark, endLen         = "PK\x05\x06", 22
	end64Mark, end64Len     = "PK\x06\x06", 56
	locatorMark, locatorLen = "PK\x06\x07", 20
	maxComment              = 1<<16 - 1
	extra64                 = 1 // the extra field with lengths of 64 bits
)

// readZip returns the files of an archive; they point into content. torch stores files without compression, so no file can be
// longer than the archive; compressed files, which could be longer, are refused. archive/zip is not used because it allocates
// memory for as many files as the archive claims.
func readZip(content []byte) (map[string][]byte, error) {
	directory, count, err := centralDirectory(content)
	if err != nil {
		return nil, fmt.Errorf("zip: %w", err)
	}
	files := make(map[string][]byte, min(count, uint64(len(directory)/centralLen)))
	for range count {
		e, rest, err := nextEntry(directory)
		if err != nil {
			return nil, fmt.Errorf("zip: %w", err)
		}
		data, err := e.data(content)
		if err != nil {
			return nil, fmt.Errorf("zip: %q: %w", shorten(e.name), err)
		}
		if _, twice := files[e.name]; twice {
			return nil, fmt.Errorf("zip: %q is there twice", shorten(e.name))
		}
		files[e.name], directory = data, rest
	}
	return files, nil
}

// centralDirectory finds the list of files. The end of the archive contains its position.
func centralDirectory(content []byte) (directory []byte, count uint64, err error) {
	tail := content[max(0, len(content)-endLen-maxComment):]
	at := bytes.LastIndex(tail, []byte(endMark))
	if at < 0 || len(tail)-at < endLen {
		return nil, 0, errors.New("the end of the archive is missing: the file is cut short")
	}
	at += len(content) - len(tail)
	end := content[at:]
	count = uint64(binary.LittleEndian.Uint16(end[10:]))
	size := uint64(binary.LittleEndian.Uint32(end[12:]))
	offset := uint64(binary.LittleEndian.Uint32(end[16:]))
	if at >= locatorLen && bytes.HasPrefix(content[at-locatorLen:], []byte(locatorMark)) {
		where := binary.LittleEndian.Uint64(content[at-locatorLen+8:])
		end64, err := part(content, where, end64Len)
		if err != nil || !bytes.HasPrefix(end64, []byte(end64Mark)) {
			return nil, 0, errors.New("the end of the archive is damaged")
		}
		count = binary.LittleEndian.Uint64(end64[32:])
		size = binary.LittleEndian.Uint64(end64[40:])
		offset = binary.LittleEndian.Uint64(end64[48:])
	}
	if count > maxEntries || size > maxDirectory {
		return nil, 0, fmt.Errorf("a list of %d files in %d bytes is over the limits of %d and %d",
			count, size, maxEntries, maxDirectory)
	}
	directory, err = part(content, offset, size)
	return directory, count, err
}

// part returns size bytes of content from offset on.
func part(content []byte, offset, size uint64) ([]byte, error) {
	have := uint64(len(content))
	if offset > have || size > have-offset {
		return nil, fmt.Errorf("%d bytes at %d are beyond the end at %d: the file is cut short", size, offset, have)
	}
	return content[offset : offset+size : offset+size], nil
}

// entry is a file as the central directory describes it.
type entry struct {
	name          string
	flags, method uint16
	packed, size  uint64
	local         uint64 // start of its own header
}

// nextEntry reads the first entry of the directory and returns what follows.
func nextEntry(in []byte) (e entry, rest []byte, err error) {
	if len(in) < centralLen || !bytes.HasPrefix(in, []byte(centralMark)) {
		return e, nil, errors.New("the list of files is damaged")
	}
	short := func(at int) uint64 { return uint64(binary.LittleEndian.Uint16(in[at:])) }
	long := func(at int) uint64 { return uint64(binary.LittleEndian.Uint32(in[at:])) }
	e = entry{flags: uint16(short(8)), method: uint16(short(10)),
		packed: long(20), size: long(24), local: long(42)}
	name, extra := short(28), short(30)
	total := centralLen + name + extra + short(32)
	if total > uint64(len(in)) {
		return e, nil, errors.New("the list of files is damaged")
	}
	e.name = string(in[centralLen : centralLen+name])
	return e, in[total:], e.widen(in[centralLen+name : centralLen+name+extra])
}

// widen reads numbers that do not fit 32 bits from the extra fields.
func (e *entry) widen(extra []byte) error {
	const full = 1<<32 - 1
	for len(extra) >= 4 {
		id, n := binary.LittleEndian.Uint16(extra), int(binary.LittleEndian.Uint16(extra[2:]))
		if n > len(extra)-4 {
			return fmt.Errorf("%q: an extra field is damaged", shorten(e.name))
		}
		field := extra[4 : 4+n]
		extra = extra[4+n:]
		if id != extra64 {
			continue
		}
		for _, x := range []*uint64{&e.size, &e.packed, &e.local} {
			if *x == full {
				if len(field) < 8 {
					return fmt.Errorf("%q: an extra field is too short", shorten(e.name))
				}
				*x, field = binary.LittleEndian.Uint64(field), field[8:]
			}
		}
	}
	return nil
}

// data returns the bytes of the file in content.
func (e *entry) data(content []byte) ([]byte, error) {
	switch {
	case e.flags&1 != 0:
		return nil, errors.New("the file is encrypted")
	case e.method != 0:
		return nil, fmt.Errorf("the file is compressed (method %d), which torch never does; save the "+
			"checkpoint again", e.method)
	case e.packed != e.size:
		return nil, fmt.Errorf("the stored file has %d bytes and claims %d", e.packed, e.size)
	}
	header, err := part(content, e.local, localLen)
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(string(header), localMark) {
		return nil, errors.New("its header is damaged")
	}
	skip := uint64(binary.LittleEndian.Uint16(header[26:])) + uint64(binary.LittleEndian.Uint16(header[28:]))
	return part(content, e.local+localLen+skip, e.size)
}

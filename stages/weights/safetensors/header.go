package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"unicode/utf8"
)

const (
	// maxHeader is the format's own limit on the header, 100 MB.
	maxHeader = 100_000_000
	// maxAxes limits the rank of a tensor.
	maxAxes = 16
	// maxMetadata limits the number of metadata keys; real files have about ten.
	maxMetadata = 4096
	// lengthBytes is the size of the header length before the header.
	lengthBytes = 8
	// metadataKey is the only name in the header that is not a tensor.
	metadataKey = "__metadata__"
)

// dtypeSizes has the known element types and their sizes in bytes.
var dtypeSizes = map[string]uint64{
	"BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1,
	"U16": 2, "I16": 2, "F16": 2, "BF16": 2,
	"U32": 4, "I32": 4, "F32": 4,
	"U64": 8, "I64": 8, "F64": 8, "C64": 8,
}

// entry is a tensor in the header.
type entry struct {
	name       string
	dtype      string
	shape      []int
	begin, end uint64
	shard      int // index in File.bodies
	packed     *Packed
}

// parse checks content and fills entries and metadata.
func (f *File) parse(content []byte) error {
	header, body, err := split(content)
	if err != nil {
		return err
	}
	s := &scanner{in: string(header)}
	if !utf8.ValidString(s.in) {
		return errors.New("the header is not valid UTF-8")
	}
	if f.entries, f.metadata, err = s.header(); err != nil {
		return fmt.Errorf("header, byte %d: %w", s.at, err)
	}
	if err := checkLayout(f.entries, uint64(len(body))); err != nil {
		return err
	}
	f.bodies = [][]byte{body}
	slices.SortFunc(f.entries, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	for i := 1; i < len(f.entries); i++ {
		if name := f.entries[i].name; name == f.entries[i-1].name {
			return fmt.Errorf("tensor %q appears twice", shorten(name))
		}
	}
	return nil
}

// split separates the header from the tensor bytes.
func split(content []byte) (header, body []byte, err error) {
	if len(content) < lengthBytes {
		return nil, nil, fmt.Errorf("%d bytes are too few for a header length: the file is cut short", len(content))
	}
	n := binary.LittleEndian.Uint64(content)
	switch rest := uint64(len(content) - lengthBytes); {
	case n > maxHeader:
		return nil, nil, fmt.Errorf("header length %d is over the limit of %d: %s", n, maxHeader, guess(content))
	case n > rest:
		return nil, nil, fmt.Errorf("header length %d, but only %d bytes follow: the file is cut short", n, rest)
	}
	body = content[lengthBytes:]
	return body[:n], body[n:], nil
}

// guess says what content that is not safetensors is. It recognises formats that users confuse with it. Read as a length, their
// first bytes would exceed the limit.
func guess(content []byte) string {
	switch {
	case bytes.HasPrefix(content, []byte("PK\x03\x04")), content[0] == 0x80:
		return "this is a PyTorch pickle (.pth, .pt, .bin), which could run code; make a safetensors file of it " +
			"with `latentbeam convert`"
	case bytes.HasPrefix(content, []byte("GGUF")):
		return "this is a GGUF file: it is known by its name, which ends in .gguf"
	case bytes.HasPrefix(content, []byte("version ")):
		return "this is a Git LFS pointer, not the file itself; fetch it with git lfs pull"
	}
	return "this is not a safetensors file; give one, or a checkpoint of PyTorch (.pth, .pt, .bin)"
}

// checkLayout checks that the tensors fill size bytes exactly, in some order, without holes or overlaps, each with the length
// of its shape and dtype. It sorts entries by position.
func checkLayout(entries []entry, size uint64) error {
	slices.SortFunc(entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end))
	})
	at := uint64(0)
	for _, e := range entries {
		want, err := byteSize(e)
		switch {
		case err != nil:
		case e.begin > e.end || e.end > size:
			err = fmt.Errorf("bytes %d to %d of %d: the file is cut short or its header is wrong",
				e.begin, e.end, size)
		case e.end-e.begin != want:
			err = fmt.Errorf("%d bytes for %s %v, want %d", e.end-e.begin, e.dtype, e.shape, want)
		case e.begin < at:
			err = fmt.Errorf("begins at byte %d, inside the tensor that ends at %d", e.begin, at)
		case e.begin > at:
			err = fmt.Errorf("begins at byte %d, after a hole from %d", e.begin, at)
		}
		if err != nil {
			return fmt.Errorf("tensor %q: %w", shorten(e.name), err)
		}
		at = e.end
	}
	if at != size {
		return fmt.Errorf("%d bytes follow the last tensor, which ends at byte %d", size-at, at)
	}
	return nil
}

// byteSize returns the size of a tensor in bytes. It returns an error if its dtype is unknown or the number overflows.
func byteSize(e entry) (uint64, error) {
	n, known := dtypeSizes[e.dtype]
	if !known {
		return 0, fmt.Errorf("dtype %q is unknown", shorten(e.dtype))
	}
	for _, d := range e.shape {
		hi, lo := bits.Mul64(n, uint64(d))
		if hi != 0 {
			return 0, fmt.Errorf("shape %v of %s overflows", e.shape, e.dtype)
		}
		n = lo
	}
	return n, nil
}

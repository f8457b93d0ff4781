package sentencepiece

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// field is one key-value pair of a protocol buffer message: bits for the scalar wire types, data for
// the length-delimited one. data aliases the message.
type field struct {
	number int
	bits   uint64
	data   []byte
}

var (
	errTruncated = errors.New("message is cut short")
	errWireType  = errors.New("wire type is not one of varint, 64-bit, bytes, 32-bit")
)

// The wire types of the protocol buffer encoding.
const (
	wireVarint = 0
	wire64     = 1
	wireBytes  = 2
	wire32     = 5
)

// eachField calls visit for every field of message in order and stops at the first error.
func eachField(message []byte, visit func(field) error) error {
	for len(message) > 0 {
		f, n, err := nextField(message)
		if err != nil {
			return err
		}
		message = message[n:]
		if err := visit(f); err != nil {
			return err
		}
	}
	return nil
}

// nextField reads one field and says how many bytes it took.
func nextField(b []byte) (field, int, error) {
	key, n := binary.Uvarint(b)
	if n <= 0 || key>>3 == 0 || key>>3 > math.MaxInt32 {
		return field{}, 0, errTruncated
	}
	f := field{number: int(key >> 3)}
	rest := b[n:]
	switch key & 7 {
	case wireVarint:
		v, k := binary.Uvarint(rest)
		if k <= 0 {
			return f, 0, errTruncated
		}
		f.bits = v
		return f, n + k, nil
	case wire64:
		if len(rest) < 8 {
			return f, 0, errTruncated
		}
		f.bits = binary.LittleEndian.Uint64(rest)
		return f, n + 8, nil
	case wire32:
		if len(rest) < 4 {
			return f, 0, errTruncated
		}
		f.bits = uint64(binary.LittleEndian.Uint32(rest))
		return f, n + 4, nil
	case wireBytes:
		size, k := binary.Uvarint(rest)
		if k <= 0 || size > uint64(len(rest)-k) {
			return f, 0, errTruncated
		}
		f.data = rest[k : k+int(size)]
		return f, n + k + int(size), nil
	}
	return f, 0, fmt.Errorf("field %d: %w", f.number, errWireType)
}

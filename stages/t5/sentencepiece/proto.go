package sentencepiece

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// field is one field of a protocol buffer message: bits holds scalar wire types, data the length-delimited type. data aliases
// the message.
type field struct {
	number protowire.Number
	bits   uint64
	data   []byte
}

var (
	errTruncated = errors.New("message is cut short")
	errWireType  = errors.New("wire type is not one of varint, 64-bit, bytes, 32-bit")
)

// eachField calls visit for every field of message in order. It stops at the first error.
func eachField(message []byte, visit func(field) error) error {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return errTruncated
		}
		f, rest := field{number: number}, message[n:]
		switch kind {
		case protowire.VarintType:
			f.bits, n = protowire.ConsumeVarint(rest)
		case protowire.Fixed64Type:
			f.bits, n = protowire.ConsumeFixed64(rest)
		case protowire.Fixed32Type:
			var bits uint32
			bits, n = protowire.ConsumeFixed32(rest)
			f.bits = uint64(bits)
		case protowire.BytesType:
			f.data, n = protowire.ConsumeBytes(rest)
		default:
			return fmt.Errorf("field %d: %w", number, errWireType)
		}
		if n < 0 {
			return errTruncated
		}
		if err := visit(f); err != nil {
			return err
		}
		message = rest[n:]
	}
	return nil
}

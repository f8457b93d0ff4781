package pages

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The wire types of thrift's compact protocol.
const (
	thriftStop   = 0
	thriftTrue   = 1
	thriftFalse  = 2
	thriftByte   = 3
	thriftI16    = 4
	thriftI32    = 5
	thriftI64    = 6
	thriftDouble = 7
	thriftBinary = 8
	thriftList   = 9
	thriftSet    = 10
	thriftMap    = 11
	thriftStruct = 12
	thriftUUID   = 13
)

// Limits of parquet's thrift structures.
const (
	maxThriftDepth    = 32
	maxThriftElements = 1 << 20 // in all lists together; the library allocates a list before it reads the elements
)

var errThriftShort = errors.New("it ends in the middle")

// thriftSkimmer walks over a thrift struct without decoding it. It finds the struct's length, and checks that no list or text
// claims more than the remaining bytes. The parquet library trusts such claims and would allocate the memory.
type thriftSkimmer struct {
	data     []byte
	at       int
	elements int
}

// misshapen is the skimmer's panic value for a bad struct; skimThrift returns it as an error.
type misshapen struct{ error }

func (s *thriftSkimmer) fail(format string, args ...any) {
	panic(misshapen{fmt.Errorf(format, args...)})
}

// skimThrift returns the length of the struct at the start of data.
func skimThrift(data []byte) (length int, err error) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case misshapen:
			err = v.error
		default:
			panic(v)
		}
	}()
	s := thriftSkimmer{data: data}
	s.structure(0)
	return s.at, nil
}

func (s *thriftSkimmer) structure(depth int) {
	if depth > maxThriftDepth {
		s.fail("it nests deeper than %d levels", maxThriftDepth)
	}
	for {
		head := s.byte()
		if head == thriftStop {
			return
		}
		if head>>4 == 0 { // a long field id
			s.varint()
		}
		s.value(head&0xf, false, depth)
	}
}

// value skips one value. A boolean field has its value in the type; a boolean in a list takes one byte.
func (s *thriftSkimmer) value(typ byte, inList bool, depth int) {
	switch typ {
	case thriftTrue, thriftFalse:
		if inList {
			s.skip(1)
		}
	case thriftByte:
		s.skip(1)
	case thriftI16, thriftI32, thriftI64:
		s.varint()
	case thriftDouble:
		s.skip(8)
	case thriftUUID:
		s.skip(16)
	case thriftBinary:
		s.skip(s.varint())
	case thriftList, thriftSet:
		s.list(depth)
	case thriftMap:
		s.mapping(depth)
	case thriftStruct:
		s.structure(depth + 1)
	default:
		s.fail("it has a value of the unknown type %d", typ)
	}
}

func (s *thriftSkimmer) list(depth int) {
	head := s.byte()
	n := uint64(head >> 4)
	if n == 15 {
		n = s.varint()
	}
	s.claim(n)
	for range n {
		s.value(head&0xf, true, depth+1)
	}
}

func (s *thriftSkimmer) mapping(depth int) {
	n := s.varint()
	if n == 0 {
		return
	}
	types := s.byte()
	s.claim(2 * n)
	for range n {
		s.value(types>>4, true, depth+1)
		s.value(types&0xf, true, depth+1)
	}
}

// claim checks a number of elements before they are read: each takes at least one byte.
func (s *thriftSkimmer) claim(n uint64) {
	if n > uint64(len(s.data)-s.at) {
		s.fail("%w", errThriftShort)
	}
	if s.elements += int(n); s.elements > maxThriftElements {
		s.fail("its lists have more than %d elements", maxThriftElements)
	}
}

func (s *thriftSkimmer) byte() byte {
	s.skip(1)
	return s.data[s.at-1]
}

func (s *thriftSkimmer) varint() uint64 {
	v, n := binary.Uvarint(s.data[s.at:])
	switch {
	case n == 0:
		s.fail("%w", errThriftShort)
	case n < 0:
		s.fail("it has a number that is too long")
	}
	s.at += n
	return v
}

func (s *thriftSkimmer) skip(n uint64) {
	if n > uint64(len(s.data)-s.at) {
		s.fail("%w", errThriftShort)
	}
	s.at += int(n)
}

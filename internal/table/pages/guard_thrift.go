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
	maxThriftElements = 1 << 20 // of all lists together; the library makes a list before it reads the elements
)

var errThriftShort = errors.New("it ends in the middle")

// thriftSkimmer walks over a thrift struct without building it, to learn how long it is and that no list
// or text claims more than there are bytes. The parquet library believes such claims and would ask for the
// memory.
type thriftSkimmer struct {
	data     []byte
	at       int
	elements int
}

// skimThrift returns the length of the struct that data begins with.
func skimThrift(data []byte) (int, error) {
	s := thriftSkimmer{data: data}
	if err := s.structure(0); err != nil {
		return 0, err
	}
	return s.at, nil
}

func (s *thriftSkimmer) structure(depth int) error {
	if depth > maxThriftDepth {
		return fmt.Errorf("it nests deeper than %d levels", maxThriftDepth)
	}
	for {
		head, err := s.byte()
		if err != nil {
			return err
		}
		if head == thriftStop {
			return nil
		}
		if head>>4 == 0 { // a long field id
			if _, err := s.varint(); err != nil {
				return err
			}
		}
		if err := s.value(head&0xf, false, depth); err != nil {
			return err
		}
	}
}

// value skips one value. A boolean field has its value in the type, one in a list takes a byte.
func (s *thriftSkimmer) value(typ byte, inList bool, depth int) error {
	switch typ {
	case thriftTrue, thriftFalse:
		if inList {
			return s.skip(1)
		}
		return nil
	case thriftByte:
		return s.skip(1)
	case thriftI16, thriftI32, thriftI64:
		_, err := s.varint()
		return err
	case thriftDouble:
		return s.skip(8)
	case thriftUUID:
		return s.skip(16)
	case thriftBinary:
		n, err := s.varint()
		if err != nil {
			return err
		}
		if n > uint64(len(s.data)-s.at) {
			return errThriftShort
		}
		return s.skip(int(n))
	case thriftList, thriftSet:
		return s.list(depth)
	case thriftMap:
		return s.mapping(depth)
	case thriftStruct:
		return s.structure(depth + 1)
	}
	return fmt.Errorf("it has a value of the unknown type %d", typ)
}

func (s *thriftSkimmer) list(depth int) error {
	head, err := s.byte()
	if err != nil {
		return err
	}
	n := uint64(head >> 4)
	if n == 15 {
		if n, err = s.varint(); err != nil {
			return err
		}
	}
	if err := s.claim(n); err != nil {
		return err
	}
	for range n {
		if err := s.value(head&0xf, true, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (s *thriftSkimmer) mapping(depth int) error {
	n, err := s.varint()
	if err != nil || n == 0 {
		return err
	}
	types, err := s.byte()
	if err != nil {
		return err
	}
	if err := s.claim(2 * n); err != nil {
		return err
	}
	for range n {
		if err := s.value(types>>4, true, depth+1); err != nil {
			return err
		}
		if err := s.value(types&0xf, true, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// claim checks a number of elements before they are read: each takes at least a byte.
func (s *thriftSkimmer) claim(n uint64) error {
	if n > uint64(len(s.data)-s.at) {
		return errThriftShort
	}
	if s.elements += int(n); s.elements > maxThriftElements {
		return fmt.Errorf("its lists have more than %d elements", maxThriftElements)
	}
	return nil
}

func (s *thriftSkimmer) byte() (byte, error) {
	if s.at >= len(s.data) {
		return 0, errThriftShort
	}
	s.at++
	return s.data[s.at-1], nil
}

func (s *thriftSkimmer) varint() (uint64, error) {
	v, n := binary.Uvarint(s.data[s.at:])
	if n == 0 {
		return 0, errThriftShort
	}
	if n < 0 {
		return 0, errors.New("it has a number that is too long")
	}
	s.at += n
	return v, nil
}

func (s *thriftSkimmer) skip(n int) error {
	if n > len(s.data)-s.at {
		return errThriftShort
	}
	s.at += n
	return nil
}

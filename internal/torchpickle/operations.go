package torchpickle

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unicode/utf8"
)

const opStop = '.'

// maxProtocol is the newest pickle protocol.
const maxProtocol = 5

// operations are the instructions that torch.save and Python's pickle write for state dicts, from protocol
// 2 on. The textual ones of protocol 0 and those that make objects of other classes are missing on purpose.
var operations = [256]func(*machine) error{
	0x80: opProto, 0x95: opFrame, '(': opMark, '0': opPop, '1': opPopMark, '2': opDup,
	'N': constant(nil), 0x88: constant(true), 0x89: constant(false),
	'K': integer(1), 'M': integer(2), 'J': integer(4), 0x8a: opLong1, 'G': opFloat,
	'X': text(4), 0x8c: text(1), 0x8d: text(8), 'U': text(1), 'T': text(4),
	'C': bytesOf(1), 'B': bytesOf(4), 0x8e: bytesOf(8),
	']': opEmptyList, 'a': opAppend, 'e': opAppends,
	')': opEmptyTuple, 't': opTuple, 0x85: tupleOf(1), 0x86: tupleOf(2), 0x87: tupleOf(3),
	'}': opEmptyDict, 's': opSetItem, 'u': opSetItems,
	'q': put(1), 'r': put(4), 0x94: opMemoize, 'h': get(1), 'j': get(4),
	'c': opGlobal, 0x93: opStackGlobal, 'R': opReduce, 'b': opBuild, 'Q': opPersistent,
}

func opProto(m *machine) error {
	version, err := m.byte()
	if err == nil && version > maxProtocol {
		err = fmt.Errorf("pickle protocol %d is not known", version)
	}
	return err
}

// opFrame begins a frame, which is only a hint for reading ahead.
func opFrame(m *machine) error {
	n, err := m.number(8)
	if err == nil && n > uint64(len(m.in)-m.at) {
		err = fmt.Errorf("a frame of %d bytes, %d are left", n, len(m.in)-m.at)
	}
	return err
}

func opMark(m *machine) error {
	m.marks = append(m.marks, len(m.stack))
	return nil
}

// opPop removes the last value, or a mark where that comes last.
func opPop(m *machine) error {
	if n := len(m.marks); n > 0 && m.marks[n-1] == len(m.stack) {
		m.marks = m.marks[:n-1]
		return nil
	}
	_, err := m.pop()
	return err
}

func opPopMark(m *machine) error {
	_, err := m.marked()
	return err
}

func opDup(m *machine) error {
	v, err := m.top()
	if err != nil {
		return err
	}
	return m.push(v)
}

func constant(v any) func(*machine) error {
	return func(m *machine) error { return m.push(v) }
}

// integer pushes a number of n bytes; that of 4 is signed.
func integer(n uint64) func(*machine) error {
	return func(m *machine) error {
		x, err := m.number(n)
		if err != nil {
			return err
		}
		if n == 4 {
			return m.push(int64(int32(x)))
		}
		return m.push(int64(x))
	}
}

// opLong1 pushes a signed number of up to 8 bytes; no state dict has a longer one.
func opLong1(m *machine) error {
	b, err := m.sized(1)
	if err != nil {
		return err
	}
	if len(b) > 8 {
		return fmt.Errorf("an integer of %d bytes", len(b))
	}
	x := int64(0)
	for i := len(b) - 1; i >= 0; i-- {
		x = x<<8 | int64(b[i])
	}
	shift := 64 - 8*len(b)
	return m.push(x << shift >> shift)
}

func opFloat(m *machine) error {
	b, err := m.take(8)
	if err != nil {
		return err
	}
	return m.push(math.Float64frombits(binary.BigEndian.Uint64(b)))
}

// text pushes UTF-8 behind its length of n bytes. Checkpoints of Python 2 hold the other kind of text, in
// which the names of tensors are ASCII too.
func text(n uint64) func(*machine) error {
	return func(m *machine) error {
		b, err := m.sized(n)
		if err != nil {
			return err
		}
		if !utf8.Valid(b) {
			return errors.New("a text is not valid UTF-8")
		}
		return m.push(string(b))
	}
}

func bytesOf(n uint64) func(*machine) error {
	return func(m *machine) error {
		b, err := m.sized(n)
		if err != nil {
			return err
		}
		return m.push(b)
	}
}

func put(n uint64) func(*machine) error {
	return func(m *machine) error {
		i, err := m.number(n)
		if err != nil {
			return err
		}
		return remember(m, uint32(i))
	}
}

func opMemoize(m *machine) error { return remember(m, uint32(len(m.memo))) }

func remember(m *machine, i uint32) error {
	v, err := m.top()
	if err == nil {
		m.memo[i] = v
	}
	return err
}

func get(n uint64) func(*machine) error {
	return func(m *machine) error {
		i, err := m.number(n)
		if err != nil {
			return err
		}
		v, ok := m.memo[uint32(i)]
		if !ok {
			return fmt.Errorf("value %d is used before it is there", i)
		}
		return m.push(v)
	}
}

package torchpickle

import (
	"encoding/binary"
	"math"
	"unicode/utf8"
)

const opStop = '.'

// maxProtocol is the newest pickle protocol.
const maxProtocol = 5

// operations are the instructions that torch.save and Python's pickle write for state dicts, from protocol 2 on. The textual
// instructions of protocol 0 and those for objects of other classes are omitted on purpose.
var operations = [256]func(*machine){
	0x80: opProto, 0x95: opFrame, '(': opMark, '0': opPop, '1': func(m *machine) { m.marked() },
	'2': func(m *machine) { m.push(m.top()) },
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

func opProto(m *machine) {
	if version := m.number(1); version > maxProtocol {
		fail("pickle protocol %d is not known", version)
	}
}

// opFrame starts a frame, which is only a hint for reading ahead.
func opFrame(m *machine) {
	if n := m.number(8); n > uint64(len(m.in)-m.at) {
		fail("a frame of %d bytes, %d are left", n, len(m.in)-m.at)
	}
}

func opMark(m *machine) { m.marks = append(m.marks, len(m.stack)) }

// opPop removes the last value, or a mark if it comes last.
func opPop(m *machine) {
	if n := len(m.marks); n > 0 && m.marks[n-1] == len(m.stack) {
		m.marks = m.marks[:n-1]
		return
	}
	m.pop()
}

func constant(v any) func(*machine) {
	return func(m *machine) { m.push(v) }
}

// integer pushes a number of n bytes. A number of 4 bytes is signed.
func integer(n uint64) func(*machine) {
	return func(m *machine) {
		x := int64(m.number(n))
		if n == 4 {
			x = int64(int32(x))
		}
		m.push(x)
	}
}

// opLong1 pushes a signed number of up to 8 bytes; state dicts have no longer ones.
func opLong1(m *machine) {
	b := m.sized(1)
	if len(b) > 8 {
		fail("an integer of %d bytes", len(b))
	}
	shift := 64 - 8*len(b)
	m.push(int64(little(b)) << shift >> shift)
}

func opFloat(m *machine) { m.push(math.Float64frombits(binary.BigEndian.Uint64(m.read(8)))) }

// text pushes UTF-8 text after its length of n bytes. Checkpoints of Python 2 use the other kind of text, which is ASCII for
// names of tensors.
func text(n uint64) func(*machine) {
	return func(m *machine) {
		b := m.sized(n)
		if !utf8.Valid(b) {
			fail("a text is not valid UTF-8")
		}
		m.push(string(b))
	}
}

func bytesOf(n uint64) func(*machine) {
	return func(m *machine) { m.push(m.sized(n)) }
}

func put(n uint64) func(*machine) {
	return func(m *machine) { m.memo[uint32(m.number(n))] = m.top() }
}

func opMemoize(m *machine) { m.memo[uint32(len(m.memo))] = m.top() }

func get(n uint64) func(*machine) {
	return func(m *machine) {
		i := m.number(n)
		v, ok := m.memo[uint32(i)]
		if !ok {
			fail("value %d is used before it is there", i)
		}
		m.push(v)
	}
}

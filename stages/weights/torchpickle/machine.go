package torchpickle

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// machine executes the instructions of a pickle (Python's pickletools lists them). Values are nil, bool,
// int64, float64, string, []byte, tuple, *list, *dict, class, *storage, *Tensor.
type machine struct {
	in    []byte
	at    int
	stack []any
	marks []int // heights of the stack at each MARK
	memo  map[uint32]any
	// persistent returns objects that the pickle references from outside: storages.
	persistent func(id tuple) (any, error)
}

type (
	tuple []any
	list  struct{ items []any }
	// dict keeps its members in order. It does not check for duplicate keys; the reader of the dict does.
	dict struct{ keys, values []any }
)

// broken is the panic value for a bad pickle; load returns it as an error.
type broken struct{ error }

func fail(format string, args ...any) { panic(broken{fmt.Errorf(format, args...)}) }

// load executes the pickle at the start of in and returns its value and its length in bytes.
func load(in []byte, persistent func(tuple) (any, error)) (value any, n int, err error) {
	m := &machine{in: in[:min(len(in), maxPickle)], memo: map[uint32]any{}, persistent: persistent}
	defer func() {
		switch v := recover().(type) {
		case nil:
		case broken:
			err = fmt.Errorf("pickle, byte %d: %w", m.at, v.error)
		default:
			panic(v)
		}
	}()
	for range maxSteps {
		code := m.read(1)[0]
		if code == opStop {
			return m.pop(), m.at, nil
		}
		run := operations[code]
		if run == nil {
			fail("instruction %q is not one of a state dict", code)
		}
		run(m)
	}
	return nil, 0, fmt.Errorf("the pickle has more than %d instructions", maxSteps)
}

// read reads n bytes. The result points into the input.
func (m *machine) read(n uint64) []byte {
	if n > uint64(len(m.in)-m.at) {
		if len(m.in) == maxPickle {
			fail("the pickle is longer than %d bytes", maxPickle)
		}
		fail("want %d more bytes, %d are left: the pickle is cut short", n, len(m.in)-m.at)
	}
	m.at += int(n)
	return m.in[m.at-int(n) : m.at]
}

// number reads a little-endian number of n bytes.
func (m *machine) number(n uint64) uint64 { return little(m.read(n)) }

func little(b []byte) uint64 {
	var whole [8]byte
	copy(whole[:], b)
	return binary.LittleEndian.Uint64(whole[:])
}

// sized reads bytes after their length, which is a number of n bytes.
func (m *machine) sized(n uint64) []byte { return m.read(m.number(n)) }

func (m *machine) push(v any) { m.stack = append(m.stack, v) }

// floor returns the smallest height of the stack that instructions must preserve.
func (m *machine) floor() int {
	if len(m.marks) == 0 {
		return 0
	}
	return m.marks[len(m.marks)-1]
}

func (m *machine) pop() any {
	top := m.top()
	m.stack[len(m.stack)-1] = nil
	m.stack = m.stack[:len(m.stack)-1]
	return top
}

func (m *machine) top() any {
	if len(m.stack) <= m.floor() {
		fail("an instruction finds too few values")
	}
	return m.stack[len(m.stack)-1]
}

// last removes the last n values and returns a copy of them.
func (m *machine) last(n int) tuple {
	start := len(m.stack) - n
	if start < m.floor() {
		fail("an instruction finds too few values")
	}
	values := slices.Clone(m.stack[start:])
	clear(m.stack[start:])
	m.stack = m.stack[:start]
	return values
}

// marked removes the values since the last MARK, and the mark, and returns a copy of them.
func (m *machine) marked() tuple {
	if len(m.marks) == 0 {
		fail("an instruction finds no mark")
	}
	values := m.last(len(m.stack) - m.floor())
	m.marks = m.marks[:len(m.marks)-1]
	return values
}

// mustBe returns v as a T. It fails the pickle if v has another type.
func mustBe[T any](v any, want string) T {
	t, err := convertTo[T](v, want)
	if err != nil {
		panic(broken{err})
	}
	return t
}

// convertTo returns v as a T, or an error that names the expected kind.
func convertTo[T any](v any, want string) (T, error) {
	t, ok := v.(T)
	if !ok {
		return t, fmt.Errorf("want %s, not %s", want, describe(v))
	}
	return t, nil
}

// describe names the kind of a value without its content, which may reference itself.
func describe(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		return "a bool"
	case int64:
		return "an int"
	case float64:
		return "a float"
	case string:
		return "a text"
	case []byte:
		return "bytes"
	case tuple:
		return "a tuple"
	case *list:
		return "a list"
	case *dict:
		return "a dict"
	case class:
		return "the class " + v.name
	case *storage:
		return "a storage"
	case *Tensor:
		return "a tensor"
	}
	return "an unknown value"
}

// shorten keeps errors readable, whatever a file contains.
func shorten(text string) string {
	if len(text) > maxText {
		text = text[:maxText] + "..."
	}
	return text
}

package torchpickle

import (
	"errors"
	"fmt"
	"slices"
)

// machine executes the instructions of a pickle (Python's pickletools lists them). Values are nil, bool,
// int64, float64, string, []byte, tuple, *list, *dict, class, *storage, *Tensor.
type machine struct {
	in    []byte
	at    int
	stack []any
	marks []int // lengths of the stack where a MARK was put
	memo  map[uint32]any
	// persistent resolves what a pickle refers to outside of itself: storages.
	persistent func(id tuple) (any, error)
}

type (
	tuple []any
	list  struct{ items []any }
	// dict keeps its members in order. Lookups are for whoever reads it, so a key may stand twice.
	dict struct{ keys, values []any }
)

// load executes the pickle at the beginning of in and returns its value and its length in bytes.
func load(in []byte, persistent func(tuple) (any, error)) (value any, n int, err error) {
	m := &machine{in: in, memo: map[uint32]any{}, persistent: persistent}
	if len(in) > maxPickle {
		m.in = in[:maxPickle]
	}
	for range maxSteps {
		code, err := m.byte()
		if err != nil {
			return nil, 0, m.locate(err)
		}
		if code == opStop {
			value, err := m.pop()
			return value, m.at, m.locate(err)
		}
		run := operations[code]
		if run == nil {
			return nil, 0, m.locate(fmt.Errorf("instruction %q is not one of a state dict", code))
		}
		if err := run(m); err != nil {
			return nil, 0, m.locate(err)
		}
	}
	return nil, 0, fmt.Errorf("the pickle has more than %d instructions", maxSteps)
}

// locate adds where the machine stands.
func (m *machine) locate(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("pickle, byte %d: %w", m.at, err)
}

// take reads n bytes, which are a part of the input.
func (m *machine) take(n uint64) ([]byte, error) {
	if n > uint64(len(m.in)-m.at) {
		if len(m.in) == maxPickle {
			return nil, fmt.Errorf("the pickle is longer than %d bytes", maxPickle)
		}
		return nil, fmt.Errorf("want %d more bytes, %d are left: the pickle is cut short", n, len(m.in)-m.at)
	}
	m.at += int(n)
	return m.in[m.at-int(n) : m.at], nil
}

func (m *machine) byte() (byte, error) {
	b, err := m.take(1)
	if err != nil {
		return 0, err
	}
	return b[0], nil
}

// number reads a little-endian number of n bytes.
func (m *machine) number(n uint64) (uint64, error) {
	b, err := m.take(n)
	x := uint64(0)
	for i := len(b) - 1; i >= 0; i-- {
		x = x<<8 | uint64(b[i])
	}
	return x, err
}

// sized reads bytes behind their length, a number of n bytes.
func (m *machine) sized(n uint64) ([]byte, error) {
	length, err := m.number(n)
	if err != nil {
		return nil, err
	}
	return m.take(length)
}

func (m *machine) push(v any) error {
	m.stack = append(m.stack, v)
	return nil
}

var errUnderflow = errors.New("an instruction finds too few values")

// floor is the height of the stack that instructions may not go below.
func (m *machine) floor() int {
	if len(m.marks) == 0 {
		return 0
	}
	return m.marks[len(m.marks)-1]
}

func (m *machine) pop() (any, error) {
	top, err := m.top()
	if err == nil {
		m.stack[len(m.stack)-1] = nil
		m.stack = m.stack[:len(m.stack)-1]
	}
	return top, err
}

func (m *machine) top() (any, error) {
	if len(m.stack) <= m.floor() {
		return nil, errUnderflow
	}
	return m.stack[len(m.stack)-1], nil
}

// last removes the last n values and returns a copy of them.
func (m *machine) last(n int) (tuple, error) {
	start := len(m.stack) - n
	if start < m.floor() {
		return nil, errUnderflow
	}
	values := slices.Clone(m.stack[start:])
	clear(m.stack[start:])
	m.stack = m.stack[:start]
	return values, nil
}

// marked removes the values since the last MARK, and the mark, and returns a copy of them.
func (m *machine) marked() (tuple, error) {
	if len(m.marks) == 0 {
		return nil, errors.New("an instruction finds no mark")
	}
	values, err := m.last(len(m.stack) - m.floor())
	m.marks = m.marks[:len(m.marks)-1]
	return values, err
}

// popTo is pop of a value that must be a T.
func popTo[T any](m *machine, want string) (T, error) {
	v, err := m.pop()
	if err != nil {
		var none T
		return none, err
	}
	return as[T](v, want)
}

// as returns v as a T, or an error that says what was wanted.
func as[T any](v any, want string) (T, error) {
	t, ok := v.(T)
	if !ok {
		return t, fmt.Errorf("want %s, not %s", want, describe(v))
	}
	return t, nil
}

// describe names the kind of a value, never its content, which may refer to itself.
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

// shorten keeps errors readable whatever a file holds.
func shorten(text string) string {
	if len(text) > maxText {
		text = text[:maxText] + "..."
	}
	return text
}

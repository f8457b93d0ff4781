package torchpickle

import (
	"errors"
	"fmt"
)

func opEmptyList(m *machine) error  { return m.push(&list{}) }
func opEmptyDict(m *machine) error  { return m.push(&dict{}) }
func opEmptyTuple(m *machine) error { return m.push(tuple{}) }

func opAppend(m *machine) error {
	item, err := m.pop()
	if err != nil {
		return err
	}
	return extend(m, tuple{item})
}

func opAppends(m *machine) error {
	items, err := m.marked()
	if err != nil {
		return err
	}
	return extend(m, items)
}

// extend appends items to the list on top of the stack.
func extend(m *machine, items tuple) error {
	top, err := m.top()
	if err != nil {
		return err
	}
	l, err := as[*list](top, "a list")
	if err == nil {
		l.items = append(l.items, items...)
	}
	return err
}

func opTuple(m *machine) error {
	items, err := m.marked()
	if err != nil {
		return err
	}
	return m.push(items)
}

func tupleOf(n int) func(*machine) error {
	return func(m *machine) error {
		items, err := m.last(n)
		if err != nil {
			return err
		}
		return m.push(items)
	}
}

func opSetItem(m *machine) error {
	pair, err := m.last(2)
	if err != nil {
		return err
	}
	return setItems(m, pair)
}

func opSetItems(m *machine) error {
	pairs, err := m.marked()
	if err != nil {
		return err
	}
	return setItems(m, pairs)
}

// setItems adds keys and values, which alternate, to the dict on top of the stack.
func setItems(m *machine, pairs tuple) error {
	top, err := m.top()
	if err != nil {
		return err
	}
	d, err := as[*dict](top, "a dict")
	if err != nil {
		return err
	}
	if len(pairs)%2 != 0 {
		return errors.New("a key of a dict has no value")
	}
	for i := 0; i < len(pairs); i += 2 {
		d.keys, d.values = append(d.keys, pairs[i]), append(d.values, pairs[i+1])
	}
	return nil
}

// opBuild gives attributes to the object on top of the stack. A state dict has one, _metadata, with the
// versions of its modules, which say nothing about tensors.
func opBuild(m *machine) error {
	if _, err := popTo[*dict](m, "attributes"); err != nil {
		return err
	}
	top, err := m.top()
	if err != nil {
		return err
	}
	switch top.(type) {
	case *dict, *Tensor:
		return nil
	}
	return fmt.Errorf("attributes for %s", describe(top))
}

// opPersistent pushes what the pickle refers to outside of itself.
func opPersistent(m *machine) error {
	id, err := popTo[tuple](m, "the tuple of a storage")
	if err != nil {
		return err
	}
	v, err := m.persistent(id)
	if err != nil {
		return err
	}
	return m.push(v)
}

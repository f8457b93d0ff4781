package torchpickle

func opEmptyList(m *machine)  { m.push(&list{}) }
func opEmptyDict(m *machine)  { m.push(&dict{}) }
func opEmptyTuple(m *machine) { m.push(tuple{}) }

func opAppend(m *machine)  { extend(m, m.last(1)) }
func opAppends(m *machine) { extend(m, m.marked()) }

// extend appends items to the list on top of the stack.
func extend(m *machine, items tuple) {
	l := mustBe[*list](m.top(), "a list")
	l.items = append(l.items, items...)
}

func opTuple(m *machine) { m.push(m.marked()) }

func tupleOf(n int) func(*machine) {
	return func(m *machine) { m.push(m.last(n)) }
}

func opSetItem(m *machine)  { setItems(m, m.last(2)) }
func opSetItems(m *machine) { setItems(m, m.marked()) }

// setItems adds alternating keys and values to the dict on top of the stack.
func setItems(m *machine, pairs tuple) {
	d := mustBe[*dict](m.top(), "a dict")
	if len(pairs)%2 != 0 {
		fail("a key of a dict has no value")
	}
	for i := 0; i < len(pairs); i += 2 {
		d.keys, d.values = append(d.keys, pairs[i]), append(d.values, pairs[i+1])
	}
}

// opBuild sets attributes of the object on top of the stack. A state dict has one, _metadata, with the versions of its modules.
// It does not concern tensors.
func opBuild(m *machine) {
	mustBe[*dict](m.pop(), "attributes")
	switch top := m.top().(type) {
	case *dict, *Tensor:
	default:
		fail("attributes for %s", describe(top))
	}
}

// opPersistent pushes an object that the pickle references from outside: a storage.
func opPersistent(m *machine) {
	v, err := m.persistent(mustBe[tuple](m.pop(), "the tuple of a storage"))
	if err != nil {
		panic(broken{err})
	}
	m.push(v)
}

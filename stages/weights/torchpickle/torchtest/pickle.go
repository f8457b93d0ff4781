package torchtest

import (
	"encoding/binary"
	"strconv"
	"strings"
)

// A value is written as the instructions that push it. These have no arguments.
const (
	None       = "N"
	True       = "\x88"
	EmptyTuple = ")"
	EmptyDict  = "}"
	Mark       = "("
	Reduce     = "R"
)

// Pickle returns the pickle of a value, in protocol 2.
func Pickle(value string) []byte { return []byte("\x80\x02" + value + ".") }

// Text pushes a text.
func Text(s string) string {
	return "X" + string(binary.LittleEndian.AppendUint32(nil, uint32(len(s)))) + s
}

// Int pushes a number of 64 bits.
func Int(n int64) string {
	return "\x8a\x08" + string(binary.LittleEndian.AppendUint64(nil, uint64(n)))
}

// Tuple pushes a tuple.
func Tuple(items ...string) string { return Mark + strings.Join(items, "") + "t" }

// List pushes a list.
func List(items ...string) string { return "](" + strings.Join(items, "") + "e" }

// Dict pushes a dict of alternating keys and values.
func Dict(items ...string) string { return "}(" + strings.Join(items, "") + "u" }

// Global pushes a class or function by its name.
func Global(module, name string) string { return "c" + module + "\n" + name + "\n" }

// Call pushes the result of calling a function with a tuple of arguments.
func Call(function string, args ...string) string { return function + Tuple(args...) + Reduce }

// Ints pushes a tuple of numbers.
func Ints(list ...int) string {
	var items []string
	for _, n := range list {
		items = append(items, Int(int64(n)))
	}
	return Tuple(items...)
}

// Storage pushes a reference to a storage of n elements by its key.
func Storage(class, key string, n int) string {
	return Tuple(Text("storage"), Global("torch", class), Text(key), Text("cpu"), Int(int64(n))) + "Q"
}

// View pushes a tensor over a storage.
func View(storage string, offset int, shape, stride []int) string {
	return Call(Global("torch._utils", "_rebuild_tensor_v2"), storage, Int(int64(offset)), Ints(shape...), Ints(stride...),
		"\x89", Call(Global("collections", "OrderedDict")))
}

// StateDict pushes an ordered dict of tensors, tensor i over storage i.
func StateDict(tensors ...Tensor) string {
	out := Call(Global("collections", "OrderedDict")) + Mark
	for i, t := range tensors {
		stride, n := make([]int, len(t.Shape)), 1
		for axis := len(t.Shape) - 1; axis >= 0; axis-- {
			stride[axis] = n
			n *= t.Shape[axis]
		}
		out += Text(t.Name) + View(Storage(t.Storage, strconv.Itoa(i), n), 0, t.Shape, stride)
	}
	return out + "u"
}

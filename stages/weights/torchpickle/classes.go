package torchpickle

import (
	"bytes"
	"errors"
	"strings"
)

// class is one of the names that a pickle may use. call builds a value from args and can do nothing else; it is nil for names
// that are only mentioned.
type class struct {
	name  string
	call  func(args tuple) (any, error)
	dtype string // of storages and types, as in safetensors; "" for bytes without a type
}

// builders are the functions that state dicts call.
var builders = map[string]func(args tuple) (any, error){
	"collections.OrderedDict":                    orderedDict,
	"torch._utils._rebuild_tensor":               rebuildTensor,
	"torch._utils._rebuild_tensor_v2":            rebuildTensor,
	"torch._utils._rebuild_tensor_v3":            rebuildTyped,
	"torch._utils._rebuild_parameter":            firstArg,
	"torch._utils._rebuild_parameter_with_state": firstArg,
	"torch.Size":   sizeOf,
	"torch.device": firstArg,
}

// storages maps the part of a storage class after "torch." or "torch.cuda." to its type.
var storages = map[string]string{
	"DoubleStorage": "F64", "FloatStorage": "F32", "HalfStorage": "F16", "BFloat16Storage": "BF16",
	"LongStorage": "I64", "IntStorage": "I32", "ShortStorage": "I16", "CharStorage": "I8",
	"ByteStorage": "U8", "BoolStorage": "BOOL", "ComplexFloatStorage": "C64", "storage.UntypedStorage": "",
}

// types maps the part of an element type after "torch." to its type.
var types = map[string]string{
	"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16",
	"float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "float8_e8m0fnu": "F8_E8M0",
	"int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8", "bool": "BOOL", "complex64": "C64",
	"uint64": "U64", "uint32": "U32", "uint16": "U16", "uint8": "U8",
}

// itemSizes has the size of an element in bytes; a storage without a type is counted in bytes.
var itemSizes = map[string]uint64{
	"": 1, "U8": 1, "I8": 1, "BOOL": 1, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1,
	"F16": 2, "BF16": 2, "I16": 2, "U16": 2, "F32": 4, "I32": 4, "U32": 4,
	"F64": 8, "I64": 8, "U64": 8, "C64": 8,
}

// find returns the class for a name in a pickle. Only names in the lists exist; nothing is looked up elsewhere.
func find(module, name string) class {
	full := module + "." + name
	if call, ok := builders[full]; ok {
		return class{name: full, call: call}
	}
	if short, ok := strings.CutPrefix(full, "torch."); ok {
		if dtype, ok := storages[strings.TrimPrefix(short, "cuda.")]; ok {
			return class{name: full, dtype: dtype}
		}
		if dtype, ok := types[short]; ok {
			return class{name: full, dtype: dtype}
		}
	}
	fail("the pickle asks for %q, which is not part of a state dict; nothing of it was "+
		"run. Save the state dict alone: torch.save(model.state_dict(), file)", shorten(full))
	return class{}
}

func opGlobal(m *machine) {
	var parts [2]string
	for i := range parts {
		n := bytes.IndexByte(m.in[m.at:], '\n')
		if n < 0 {
			fail("the name of a class does not end")
		}
		parts[i] = string(m.read(uint64(n) + 1)[:n])
	}
	m.push(find(parts[0], parts[1]))
}

func opStackGlobal(m *machine) {
	names := m.last(2)
	module, ok1 := names[0].(string)
	name, ok2 := names[1].(string)
	if !ok1 || !ok2 {
		fail("the name of a class is not a text")
	}
	m.push(find(module, name))
}

// opReduce calls a class.
func opReduce(m *machine) {
	args := mustBe[tuple](m.pop(), "the arguments of a call")
	c := mustBe[class](m.pop(), "a class to call")
	if c.call == nil {
		fail("%s cannot be called", c.name)
	}
	v, err := c.call(args)
	if err != nil {
		fail("%s: %w", c.name, err)
	}
	m.push(v)
}

// orderedDict makes an empty dict, as Python 3 does; its members are added later. Python 2 passed them as an argument, which a
// hostile file could have copied without limit.
func orderedDict(args tuple) (any, error) {
	if len(args) != 0 {
		return nil, errors.New("an OrderedDict with arguments, as Python 2 writes it; save it again with Python 3")
	}
	return &dict{}, nil
}

func firstArg(args tuple) (any, error) {
	if len(args) == 0 {
		return nil, errors.New("no arguments")
	}
	return args[0], nil
}

func sizeOf(args tuple) (any, error) {
	v, err := firstArg(args)
	if err != nil {
		return nil, err
	}
	return convertTo[tuple](v, "a tuple of lengths")
}

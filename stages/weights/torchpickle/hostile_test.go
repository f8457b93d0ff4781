package torchpickle

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	tt "latentbeam/stages/weights/torchpickle/torchtest"
)

// hostile is a pickle that must be refused, with a part of the reason.
type hostile struct{ name, value, want string }

// one is the instructions of a state dict of one tensor.
func one(tensor string) string { return tt.Dict(tt.Text("x"), tensor) }

// over is a view of floats, scalar its first element.
func over(offset int, shape, stride []int) string { return tt.View(floats, offset, shape, stride) }

var scalar = over(0, nil, nil)

// rebuild is a call of the function that makes tensors, in one of its versions.
func rebuild(version string, args ...string) string {
	return tt.Call(tt.Global("torch._utils", "_rebuild_tensor_"+version), args...)
}

var ordered = tt.Global("collections", "OrderedDict")

// floats is a storage of 12 elements, which the archive of every hostile pickle has.
var floats = tt.Storage("FloatStorage", "0", 12)

func long(n uint64) string { return string(binary.LittleEndian.AppendUint64(nil, n)) }

// attacks ask for what could run. All leave a file at canary if they do.
func attacks(canary string) []hostile {
	command := tt.Text("touch " + canary)
	code := tt.Text(fmt.Sprintf("open(%q, 'w')", canary))
	system := tt.Call(tt.Global("os", "system"), command)
	list := []hostile{
		{"os.system", system, `asks for "os.system"`},
		{"posix.system", tt.Call(tt.Global("posix", "system"), command), `"posix.system"`},
		{"nt.system", tt.Call(tt.Global("nt", "system"), command), `"nt.system"`},
		{"subprocess", tt.Call(tt.Global("subprocess", "Popen"), tt.List(tt.Text("touch"), tt.Text(canary))),
			"Popen"},
		{"eval", tt.Call(tt.Global("builtins", "eval"), code), `"builtins.eval"`},
		{"eval of Python 2", tt.Call(tt.Global("__builtin__", "eval"), code), `"__builtin__.eval"`},
		{"exec", tt.Call(tt.Global("builtins", "exec"), code), `"builtins.exec"`},
		{"getattr", tt.Call(tt.Global("builtins", "getattr"), tt.Global("os", "system")),
			`"builtins.getattr"`},
		{"import", tt.Call(tt.Global("builtins", "__import__"), tt.Text("os")), `"builtins.__import__"`},
		{"runpy", tt.Call(tt.Global("runpy", "_run_code"), code), `"runpy._run_code"`},
		{"numpy", tt.Call(tt.Global("numpy.testing._private.utils", "runstring"), code), "runstring"},
		{"a pickle in a pickle", tt.Call(tt.Global("pickle", "loads"), system), "asks for"},
		{"code", tt.Call(tt.Global("marshal", "loads"), code), `"marshal.loads"`},
		{"torch.load", tt.Call(tt.Global("torch.serialization", "load"), tt.Text(canary)),
			"torch.serialization.load"},
		{"torch.hub", tt.Call(tt.Global("torch.hub", "load"), tt.Text(canary)), "torch.hub.load"},
		{"a type of torch that calls", tt.Call(tt.Global("torch._tensor", "_rebuild_from_type_v2")),
			"_rebuild_from_type_v2"},
		{"a module of torch", tt.Call(tt.Global("torch.nn.modules.linear", "Linear")),
			"Save the state dict alone"},
		{"nested in arguments", tt.Call(ordered, system), `"os.system"`},
		{"nested in a shape", one(rebuild("v2", floats, tt.Int(0), system)),
			`"os.system"`},
		{"attribute of an allowed class", tt.Global("collections", "OrderedDict.__init__.__globals__"),
			"__globals__"},
		{"module with the allowed name", tt.Global("collections.OrderedDict", "x"), "asks for"},
		{"by stack", tt.Text("os") + tt.Text("system") + "\x93" + tt.Tuple(command) + "R", `"os.system"`},
		{"by stack from memo", tt.Text("system") + "q\x00" + tt.Text("os") + "q\x01" + "00h\x01h\x00\x93",
			`"os.system"`},
		{"by stack, no text", tt.Int(1) + tt.Text("system") + "\x93", "not a text"},
		{"protocol 0", "cos\nsystem\n(S'touch " + canary + "'\ntR", `"os.system"`},
		{"protocol 0, its text first", "(S'touch " + canary + "'\ncos\nsystem\n", `'S' is not`},
		{"INST", "(" + command + "ios\nsystem\n", `'i' is not`},
		{"OBJ", "(" + tt.Text("os") + command + "o", `'o' is not`},
		{"NEWOBJ", ordered + ")\x81", `'\u0081' is not`},
		{"NEWOBJ_EX", ordered + ")}\x92", `'\u0092' is not`},
		{"extension registry", "\x82\x01", `'\u0082' is not`},
		{"attributes of a class", ordered + "}b", "attributes for the class"},
		{"attributes of a tuple", tt.EmptyTuple + "}b", "attributes for a tuple"},
		{"attributes that are none", "}" + tt.Tuple(tt.None, tt.EmptyDict) + "b", "want attributes"},
		{"call of a text", tt.Text("os.system") + tt.Tuple(command) + "R",
			"want a class to call, not a text"},
		{"call of a storage class", tt.Call(tt.Global("torch", "FloatStorage"), tt.Int(1<<40)),
			"cannot be called"},
		{"call of a type", tt.Call(tt.Global("torch", "float32"), tt.Int(1)), "cannot be called"},
		{"call without a tuple", ordered + tt.List() + "R", "want the arguments of a call"},
		{"OrderedDict of pairs", tt.Call(ordered, tt.List()), "with arguments"},
	}
	return list
}

// bombs claim or build more than the file can hold.
var bombs = []hostile{
	{"text of 4 GiB", "X\xff\xff\xff\xff", "cut short"},
	{"text of 2^63 bytes", "\x8d" + long(1<<63), "cut short"},
	{"bytes of 2^64-1", "\x8e" + long(1<<64-1), "cut short"},
	{"bytes of 4 GiB", "B\xff\xff\xff\xff", "cut short"},
	{"bytearray", "\x96" + long(1<<40), "is not one"},
	{"frame of 2^63 bytes", "\x95" + long(1<<63), "a frame of"},
	{"integer of 2 GiB", "\x8b\xff\xff\xff\x7f", "is not one"},
	{"integer of 255 bytes", "\x8a\xff" + strings.Repeat("\x01", 255), "an integer of 255 bytes"},
	{"memo index 2^32-1", "Nr\xff\xff\xff\xffj\xff\xff\xff\xffj\xfe\xff\xff\xff", "before it is there"},
	{"protocol 255", "\x80\xff", "protocol 255"},
	{"no end", strings.Repeat("N", 1000)[:999] + "\x80", "protocol 46"},
	{"marks", strings.Repeat("(", maxSteps), "more than"},
	{"values", strings.Repeat("N", maxSteps), "more than"},
	{"dicts", strings.Repeat("}", maxSteps), "more than"},
	{"deep tuples", "N" + strings.Repeat("\x85", maxSteps-10), "want a dict of tensors"},
	{"deep lists", strings.Repeat("]", maxSteps/2-10) + strings.Repeat("a", maxSteps/2-11),
		"want a dict of tensors"},
	{"deep dicts", strings.Repeat("}\x88", maxSteps/3-10) + "}" + strings.Repeat("s", maxSteps/3-10),
		"no tensors"},
	{"laughs",
		"N" + strings.Repeat("q\x00h\x00h\x00h\x00h\x00h\x00h\x00h\x00h\x00h\x00(h\x00h\x00h\x00t", 10_000),
		"want a dict of tensors"},
	{"laughing dicts", "}" + strings.Repeat("q\x00}(K\x01h\x00K\x02h\x00K\x03h\x00u", 10_000), "no tensors"},
	{"dict in itself", "}q\x00X\x01\x00\x00\x00ah\x00s", "no tensors"},
	{"list in itself", "]q\x00h\x00a", "want a dict of tensors"},
	{"one long name for many dicts", tt.Text(strings.Repeat("n", 1<<20)) + "q\x00" + one(over(0, []int{1}, []int{1})) +
		"q\x01}(" + strings.Repeat("h\x00h\x01", 100_000) + "u", "no tensors"},
	{"one long name for many tensors", over(0, []int{1}, []int{1}) + "q\x01" +
		tt.Text(strings.Repeat("n", 1<<20)) + "q\x00}(" + strings.Repeat("h\x00h\x01", 100_000) + "u",
		"a name of 1048576 bytes"},
	{"unbalanced", "t", "no mark"},
	{"below a mark", "N(\x85", "too few"},
	{"call below a mark", ordered + ")(R", "too few"},
	{"pop of nothing", "0", "too few"},
	{"dup of nothing", "2", "too few"},
	{"key without value", "}(Nu", "has no value"},
	{"append to nothing", "Na", "too few"},
	{"append to a dict", "}Na", "want a list"},
	{"items for a list", "]NNs", "want a dict"},
	{"bad UTF-8", "X\x01\x00\x00\x00\xff", "UTF-8"},
	{"class without end", "cos", "does not end"},
	{"text after the pickle", "}.}", "follow the pickle"},
}

// tensors that are not inside their storage, and storages that do not exist.
var tensors = []hostile{
	{"a billion elements", one(over(0, []int{1 << 30}, []int{1})), "has 1073741824 elements, its storage 12"},
	{"a billion elements of one", one(over(0, []int{1 << 30}, []int{0})), "its storage 12"},
	{"an expanded axis", one(over(0, []int{4, 4}, []int{1, 0})), "its storage 12"},
	{"2^64 elements", one(over(0, []int{1 << 32, 1 << 32}, []int{1, 1})), "overflows"},
	{"2^126 elements and none", one(over(0, []int{1 << 62, 1 << 62, 0}, []int{1, 1, 1})), "overflows"},
	{"reach", one(over(1, []int{3, 4}, []int{4, 1})), "reach beyond"},
	{"stride", one(over(0, []int{2}, []int{12})), "reach beyond"},
	{"stride 2^62", one(over(0, []int{3}, []int{1 << 62})), "reach beyond"},
	{"two strides", one(over(0, []int{2, 2}, []int{6, 6})), "reach beyond"},
	{"negative stride", one(over(0, []int{2}, []int{-1})), "negative"},
	{"negative axis", one(over(0, []int{-2}, []int{1})), "negative"},
	{"negative offset", one(over(-1, []int{2}, []int{1})), "do not fit together"},
	{"offset at the end", one(over(12, []int{1}, []int{1})), "outside"},
	{"offset 2^62", one(over(1<<62, []int{1}, []int{1})), "outside"},
	{"stride for each axis", one(over(0, []int{2, 2}, []int{1})), "do not fit together"},
	{"17 axes", one(over(0, make([]int, 17), make([]int, 17))), "17 axes"},
	{"storage too long", one(tt.View(tt.Storage("FloatStorage", "0", 13), 0, nil, nil)),
		"has 48 bytes, the pickle says 52"},
	{"storage of doubles", one(tt.View(tt.Storage("DoubleStorage", "0", 12), 0, nil, nil)),
		"the pickle says 96"},
	{"negative storage", one(tt.View(tt.Storage("FloatStorage", "0", -1), 0, nil, nil)), "of -1 elements"},
	{"storage of 2^62", one(tt.View(tt.Storage("FloatStorage", "0", 1<<62), 0, nil, nil)), "elements"},
	{"no such storage", one(tt.View(tt.Storage("FloatStorage", "9", 12), 0, nil, nil)), "not in the archive"},
	{"storage above", one(tt.View(tt.Storage("FloatStorage", "../data.pkl", 1), 0, nil, nil)),
		"not in the archive"},
	{"one storage, two types", tt.Tuple(floats, tt.Storage("IntStorage", "0", 12)), "two different descriptions"},
	{"complex of 16 bytes", tt.Storage("ComplexDoubleStorage", "0", 12), "ComplexDoubleStorage"},
	{"storage class that calls", tt.Tuple(tt.Text("storage"), tt.Global("torch._utils",
		"_rebuild_tensor"), tt.Text("0"),
		tt.Text("cpu"), tt.Int(12)) + "Q", "_rebuild_tensor"},
	{"reference to a module", tt.Tuple(tt.Text("module"), tt.None, tt.None, tt.None, tt.None) + "Q",
		"not a storage"},
	{"reference is a text", tt.Text("storage") + "Q", "want the tuple of a storage"},
	{"short reference", tt.Tuple(tt.Text("storage")) + "Q", "not a storage"},
	{"shape is a number", one(rebuild("v2", floats, "K\x00", "K\x01", "K\x01")),
		"want a tuple of numbers"},
	{"shape of texts", one(rebuild("v2", floats, "K\x00", tt.Tuple(tt.Text("1")), ")")),
		"want a number, not a text"},
	{"tensor of a dict", one(rebuild("v2", "}", "K\x00", ")", ")")), "want a storage"},
	{"tensor of nothing", one(rebuild("v2")), "want 4"},
	{"typed tensor without a type", one(rebuild("v3", floats, "K\x00", ")", ")", "N", "N", "N")),
		"want an element type"},
	{"type without a size", one(rebuild("v3", floats, "K\x00", ")", ")", "N", "N",
		tt.Global("torch", "quint8"))), "quint8"},
	{"parameter of nothing", one(tt.Call(tt.Global("torch._utils", "_rebuild_parameter"))), "no arguments"},
	{"a list of tensors", tt.List(scalar), "want a dict of tensors"},
	{"a tensor alone", scalar, "want a dict of tensors"},
	{"an empty dict", tt.EmptyDict, "no tensors by name"},
	{"a name twice", tt.Dict(tt.Text("x"), scalar, tt.Text("x"), scalar), "there twice"},
	{"a number for a name", tt.Dict(tt.Int(1), scalar), "an int, not a text"},
	{"two state dicts", tt.Dict(tt.Text("a"), one(scalar), tt.Text("b"), one(scalar)),
		"choose one with --key"},
	{"state dict too deep", strings.Repeat("}"+tt.Text("a"), 6) + one(scalar) + strings.Repeat("s", 6),
		"no tensors"},
}

// TestHostilePicklesAreRefused: every hostile pickle gives a clear error, in both formats. Nothing is executed, and the
// memory is proportional to the size of the file.
func TestHostilePicklesAreRefused(t *testing.T) {
	canary := filepath.Join(t.TempDir(), "canary")
	all := append(append(attacks(canary), bombs...), tensors...)
	for _, h := range all {
		t.Run(h.name, func(t *testing.T) {
			pickle := tt.Pickle(h.value)
			refused(t, tt.Zip(t, pickle, make([]byte, 48)), h.want)
			legacy := tt.Legacy(pickle, 4, make([]byte, 48))
			if _, err := New(legacy, ""); err == nil {
				t.Error("the legacy file passed")
			}
		})
	}
	if _, err := os.Stat(canary); err == nil {
		t.Error("a pickle was executed")
	}
	t.Logf("%d hostile pickles", len(all))
}

// bytesEach is what reading may allocate for each byte of a checkpoint; an empty dict, a single byte of a
// pickle, becomes some hundred.
const bytesEach = 160

// refused checks that content gives an error with the text, soon, and without much memory.
func refused(t *testing.T, content []byte, want string) {
	t.Helper()
	var before, after runtime.MemStats
	start := time.Now()
	runtime.ReadMemStats(&before)
	_, err := New(content, "")
	runtime.ReadMemStats(&after)
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v does not say %q", err, want)
	}
	if err != nil && len(err.Error()) > 500 {
		t.Errorf("an error of %d bytes", len(err.Error()))
	}
	if got, limit := after.TotalAlloc-before.TotalAlloc, uint64(bytesEach*len(content)+1<<20); got > limit {
		t.Errorf("%d bytes allocated for a file of %d", got, len(content))
	}
	if d := time.Since(start); d > time.Minute { // most take milliseconds on a machine of one's own
		t.Errorf("refused after %v", d)
	}
}

// TestManyStateDicts: a file of very many dicts with tensors is refused before their paths are joined.
func TestManyStateDicts(t *testing.T) {
	var value strings.Builder
	value.WriteString(scalar + "q\x00" + tt.Text(strings.Repeat("n", maxName)) + "q\x010}(")
	for range 10_000 {
		value.WriteString("h\x01}X\x01\x00\x00\x00xh\x00s")
	}
	refused(t, tt.Zip(t, tt.Pickle(value.String()+"u"), make([]byte, 48)), "more than 64 dicts")
}

func TestNotACheckpoint(t *testing.T) {
	tar := append(bytes.Repeat([]byte{'x'}, 257), "ustar\x0000"...)
	for want, content := range map[string]string{
		"not a PyTorch checkpoint":         "hello",
		"this is not a PyTorch":            "",
		"tar archive":                      string(tar),
		"a pickle that torch.save did not": "\x80\x04\x95\x10\x00\x00\x00\x01\x00\x00\x00N.",
	} {
		refused(t, []byte(content), want)
		if want := len(content) > 10; Is([]byte(content)) != want {
			t.Errorf("%q: Is gives %v", content[:min(9, len(content))], !want)
		}
	}
	if Is([]byte("\x80\x00\x00\x00\x00\x00\x00\x00{}  ")) {
		t.Error("a safetensors file with a header of 128 bytes is taken for a pickle")
	}
}

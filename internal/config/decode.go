package config

import (
	"fmt"
	"math"
	"reflect"
	"strings"

	"latentbeam/schemas"
)

// decoder fills Go values from nodes and collects every problem on the way.
type decoder struct {
	errors *Error
}

// fromNode is implemented by values that a plain type cannot express, such as "auto or a number". It
// returns what it wanted when the node does not fit, e.g. "auto or a whole number".
type fromNode interface {
	fromNode(n *node) (wanted string, ok bool)
}

// fromText is implemented by structs that may also be written as one text.
type fromText interface{ fromText(text string) }

// decode fills v, which must be settable, from n; an empty value leaves v as it is. path names n in messages.
func (d *decoder) decode(n *node, v reflect.Value, path string) {
	if n.kind == nullKind {
		return
	}
	if custom, ok := v.Addr().Interface().(fromNode); ok {
		if wanted, ok := custom.fromNode(n); !ok {
			d.mismatch(n, path, wanted)
		}
		return
	}
	if auto, ok := v.Addr().Interface().(*schemas.AutoInt); ok {
		d.decodeAuto(n, auto, path)
		return
	}
	if short, ok := v.Addr().Interface().(fromText); ok && n.kind == textKind {
		short.fromText(n.text)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		value := reflect.New(v.Type().Elem())
		d.decode(n, value.Elem(), path)
		v.Set(value)
	case reflect.Struct:
		d.decodeStruct(n, v, path)
	case reflect.Map:
		d.decodeMap(n, v, path)
	case reflect.Slice:
		d.decodeList(n, v, path)
	default:
		d.decodeScalar(n, v, path)
	}
}

// decodeAuto takes the word auto or a whole number; a number in quotes is a text.
func (d *decoder) decodeAuto(n *node, v *schemas.AutoInt, path string) {
	switch {
	case n.kind == textKind && n.text == "auto":
		*v = 0
	case n.kind == intKind && n.i >= 1 && n.i <= math.MaxInt32:
		*v = schemas.AutoInt(n.i)
	default:
		d.mismatch(n, path, "auto or a whole number of 1 or more")
	}
}

func (d *decoder) decodeScalar(n *node, v reflect.Value, path string) {
	switch v.Kind() {
	case reflect.String:
		if n.kind != textKind {
			d.mismatch(n, path, "a text")
			return
		}
		v.SetString(n.text)
	case reflect.Bool:
		if n.kind != boolKind {
			d.mismatch(n, path, "true or false")
			return
		}
		v.SetBool(n.b)
	case reflect.Int, reflect.Int32, reflect.Int64:
		if n.kind != intKind || v.OverflowInt(n.i) {
			d.mismatch(n, path, "a whole number")
			return
		}
		v.SetInt(n.i)
	case reflect.Float32, reflect.Float64:
		if n.kind != intKind && n.kind != floatKind {
			d.mismatch(n, path, "a number")
			return
		}
		v.SetFloat(n.f)
	default:
		d.errors.add(n.pos, fmt.Sprintf("%s: the program cannot take a %s here (a fault of the program)",
			path, v.Type()), "")
	}
}

func (d *decoder) decodeStruct(n *node, v reflect.Value, path string) {
	if n.kind != mapKind {
		wanted := "a map of keys and values"
		if _, ok := v.Addr().Interface().(fromText); ok {
			wanted = "a text or " + wanted
		}
		d.mismatch(n, path, wanted)
		return
	}
	fields := map[string]reflect.Value{}
	names := keysOf(v, fields)
	for _, p := range n.pairs {
		field, known := fields[p.key]
		if !known {
			d.errors.add(p.pos, fmt.Sprintf("unknown key %q%s", p.key, in(path)), suggest(p.key, names))
			continue
		}
		d.decode(p.value, field, join(path, p.key))
	}
}

// keysOf adds the fields of a struct by their keys, and returns the keys in order. The fields of an embedded struct are
// those of the struct, as in JSON.
func keysOf(v reflect.Value, fields map[string]reflect.Value) (names []string) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct {
			names = append(names, keysOf(v.Field(i), fields)...)
			continue
		}
		if name != "" && name != "-" {
			fields[name] = v.Field(i)
			names = append(names, name)
		}
	}
	return names
}

func (d *decoder) decodeMap(n *node, v reflect.Value, path string) {
	if n.kind != mapKind {
		d.mismatch(n, path, "a map of keys and values")
		return
	}
	out := reflect.MakeMap(v.Type())
	for _, p := range n.pairs {
		value := reflect.New(v.Type().Elem()).Elem()
		d.decode(p.value, value, join(path, p.key))
		out.SetMapIndex(reflect.ValueOf(p.key), value)
	}
	v.Set(out)
}

func (d *decoder) decodeList(n *node, v reflect.Value, path string) {
	if n.kind != listKind {
		d.mismatch(n, path, "a list")
		return
	}
	out := reflect.MakeSlice(v.Type(), len(n.items), len(n.items))
	for i, item := range n.items {
		d.decode(item, out.Index(i), fmt.Sprintf("%s[%d]", path, i))
	}
	v.Set(out)
}

func (d *decoder) mismatch(n *node, path, wanted string) {
	fix := ""
	switch {
	case wanted == "a text" && (n.kind == intKind || n.kind == floatKind || n.kind == boolKind):
		fix = fmt.Sprintf("put it in quotes: %q", n.text)
	case n.kind == textKind && strings.HasPrefix(wanted, "a map") && strings.Contains(n.text, ":"):
		fix = "write a space after the colon"
	case n.kind == textKind && path == "input":
		fix = fmt.Sprintf("write input: {prompts: %s}", clip(n.text, valueRunes))
	case n.kind == mapKind && path == "stages":
		fix = "put \"- \" before every stage, such as - encode_text: {}"
	case n.kind == intKind && strings.HasPrefix(wanted, "a time"):
		fix = fmt.Sprintf("write %ss for seconds", n.text)
	case n.kind == textKind && strings.Trim(n.text, "0123456789") == "" && len(n.text) > 18:
		fix = fmt.Sprintf("whole numbers end at %d", int64(math.MaxInt64))
	case n.kind == textKind && strings.Contains(wanted, "number") && looksNumeric(n.text):
		fix = "write it without quotes or thousands separators"
	case n.kind == floatKind && strings.HasPrefix(wanted, "a whole number"):
		fix = "write it without a fraction"
	}
	got := n.describe()
	if n.kind == intKind && strings.Contains(wanted, "whole number") { // of the right kind and out of range
		got = clip(n.text, valueRunes)
	}
	d.errors.add(n.pos, fmt.Sprintf("%s must be %s, not %s", path, wanted, got), fix)
}

func looksNumeric(s string) bool {
	return s != "" && strings.Trim(s, "0123456789.,_ +-eE") == ""
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func in(path string) string {
	if path == "" {
		return ""
	}
	return " in " + path
}

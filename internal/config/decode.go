package config

import (
	"fmt"
	"math"
	"reflect"
	"strings"

	"latentbeam/internal/config/document"
	"latentbeam/schemas"
)

// decoder fills Go values from nodes and collects all problems.
type decoder struct {
	errors *document.Error
}

// fromNode is implemented by types that decode a node themselves, such as "auto or a number". If the node does not fit, ok is
// false, and wanted describes valid values, such as "auto or a whole number".
type fromNode interface {
	fromNode(n *document.Node) (wanted string, ok bool)
}

// fromText is implemented by structs that may also be written as a single text.
type fromText interface{ fromText(text string) }

// decode fills v, which must be settable, from n. A null node does not change v. path names n in messages.
func (d *decoder) decode(n *document.Node, v reflect.Value, path string) {
	if n.Kind == document.NullKind {
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
	if short, ok := v.Addr().Interface().(fromText); ok && n.Kind == document.TextKind {
		short.fromText(n.Text)
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

// decodeAuto decodes the word auto or a whole number. A number in quotes is a text and an error.
func (d *decoder) decodeAuto(n *document.Node, v *schemas.AutoInt, path string) {
	switch {
	case n.Kind == document.TextKind && n.Text == "auto":
		*v = 0
	case n.Kind == document.IntKind && n.Int >= 1 && n.Int <= math.MaxInt32:
		*v = schemas.AutoInt(n.Int)
	default:
		d.mismatch(n, path, "auto or a whole number of 1 or more")
	}
}

func (d *decoder) decodeScalar(n *document.Node, v reflect.Value, path string) {
	switch v.Kind() {
	case reflect.String:
		if n.Kind != document.TextKind {
			d.mismatch(n, path, "a text")
			return
		}
		v.SetString(n.Text)
	case reflect.Bool:
		if n.Kind != document.BoolKind {
			d.mismatch(n, path, "true or false")
			return
		}
		v.SetBool(n.Bool)
	case reflect.Int, reflect.Int32, reflect.Int64:
		if n.Kind != document.IntKind || v.OverflowInt(n.Int) {
			d.mismatch(n, path, "a whole number")
			return
		}
		v.SetInt(n.Int)
	case reflect.Float32, reflect.Float64:
		if n.Kind != document.IntKind && n.Kind != document.FloatKind {
			d.mismatch(n, path, "a number")
			return
		}
		v.SetFloat(n.Float)
	default:
		d.errors.Add(n.Pos, fmt.Sprintf("%s: the program cannot take a %s here (a fault of the program)",
			path, v.Type()), "")
	}
}

func (d *decoder) decodeStruct(n *document.Node, v reflect.Value, path string) {
	if n.Kind != document.MapKind {
		wanted := "a map of keys and values"
		if _, ok := v.Addr().Interface().(fromText); ok {
			wanted = "a text or " + wanted
		}
		d.mismatch(n, path, wanted)
		return
	}
	fields := map[string]reflect.Value{}
	names := keysOf(v, fields)
	for _, p := range n.Pairs {
		field, known := fields[p.Key]
		if !known {
			d.errors.Add(p.Pos, fmt.Sprintf("unknown key %q%s", p.Key, ofPath(path)), suggestName(p.Key, names))
			continue
		}
		d.decode(p.Value, field, join(path, p.Key))
	}
}

// keysOf adds the fields of a struct to the map, by their keys, and returns the keys in order. Fields of an embedded struct count
// as fields of the struct, as in encoding/json.
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

func (d *decoder) decodeMap(n *document.Node, v reflect.Value, path string) {
	if n.Kind != document.MapKind {
		d.mismatch(n, path, "a map of keys and values")
		return
	}
	out := reflect.MakeMap(v.Type())
	for _, p := range n.Pairs {
		value := reflect.New(v.Type().Elem()).Elem()
		d.decode(p.Value, value, join(path, p.Key))
		out.SetMapIndex(reflect.ValueOf(p.Key), value)
	}
	v.Set(out)
}

func (d *decoder) decodeList(n *document.Node, v reflect.Value, path string) {
	if n.Kind != document.ListKind {
		d.mismatch(n, path, "a list")
		return
	}
	out := reflect.MakeSlice(v.Type(), len(n.Items), len(n.Items))
	for i, item := range n.Items {
		d.decode(item, out.Index(i), fmt.Sprintf("%s[%d]", path, i))
	}
	v.Set(out)
}

func (d *decoder) mismatch(n *document.Node, path, wanted string) {
	fix := ""
	switch {
	case wanted == "a text" && (n.Kind == document.IntKind || n.Kind == document.FloatKind || n.Kind == document.BoolKind):
		fix = fmt.Sprintf("put it in quotes: %q", n.Text)
	case n.Kind == document.TextKind && strings.HasPrefix(wanted, "a map") && strings.Contains(n.Text, ":"):
		fix = "write a space after the colon"
	case n.Kind == document.TextKind && path == "input":
		fix = fmt.Sprintf("write input: {prompts: %s}", document.Clip(n.Text, document.ValueRunes))
	case n.Kind == document.MapKind && path == "stages":
		fix = "put \"- \" before every stage, such as - encode_text: {}"
	case n.Kind == document.IntKind && strings.HasPrefix(wanted, "a time"):
		fix = fmt.Sprintf("write %ss for seconds", n.Text)
	case n.Kind == document.TextKind && strings.Trim(n.Text, "0123456789") == "" && len(n.Text) > 18:
		fix = fmt.Sprintf("whole numbers end at %d", int64(math.MaxInt64))
	case n.Kind == document.TextKind && strings.Contains(wanted, "number") && looksNumeric(n.Text):
		fix = "write it without quotes or thousands separators"
	case n.Kind == document.TextKind && strings.HasSuffix(wanted, "a whole number"):
		fix = "write digits, such as 16"
	case n.Kind == document.FloatKind && strings.HasPrefix(wanted, "a whole number"):
		fix = "write it without a fraction"
	}
	got := n.Describe()
	if n.Kind == document.IntKind && strings.Contains(wanted, "whole number") { // right kind, but out of range
		got = document.Clip(n.Text, document.ValueRunes)
	}
	d.errors.Add(n.Pos, fmt.Sprintf("%s must be %s, not %s", path, wanted, got), fix)
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

func ofPath(path string) string {
	if path == "" {
		return ""
	}
	return " in " + path
}

package exec

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"latentbeam/stages"
	"latentbeam/stages/exec/exectest"
)

// TestSchema compares the messages of real batches with docs/exec.schema.json, both ways.
func TestSchema(t *testing.T) {
	data, err := os.ReadFile("../../docs/exec.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var root map[string]any
	if err := json.Unmarshal(data, &root); err != nil {
		t.Fatal(err)
	}
	trace := filepath.Join(t.TempDir(), "trace")
	name, value := exectest.Trace(trace)
	t.Setenv(name, value)
	s, _ := openStage(t, "prompt", "frames", ", batch: 2, batch_invariant: true")
	dev := device{onCPU(t), "GPU-1"}
	if err := s.Run(t.Context(), dev, []*stages.Element{element("a"), element("do:error")}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := s.Run(ctx, dev, []*stages.Element{element("do:wait")}); err == nil {
		t.Fatal("the batch was not cancelled")
	}
	lines, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(string(lines)) {
		direction := map[byte]string{'>': "request", '<': "answer"}[line[0]]
		var message map[string]any
		if err := json.Unmarshal([]byte(line[2:]), &message); err != nil {
			t.Fatal(err)
		}
		seen[fmt.Sprint(direction, " ", message["type"])] = true
		if err := valid(root, ref(direction), message); err != nil {
			t.Errorf("%s: %v", strings.TrimSpace(line), err)
		}
	}
	for _, want := range []string{"request hello", "request batch", "request cancel", "answer hello", "answer result", "answer error",
		"answer done", "answer progress", "answer log", "answer heartbeat"} {
		if !seen[want] {
			t.Errorf("no %s was seen", want)
		}
	}
	for _, wrong := range []string{`{"type": "done"}`, `{"type": "error", "batch": 1, "key": "1", "class": "row", "message": ""}`,
		`{"type": "log", "message": 3}`, `{"type": "heartbeat", "more": 1}`, `{"type": "hullo"}`} {
		var message any
		if err := json.Unmarshal([]byte(wrong), &message); err != nil {
			t.Fatal(err)
		}
		if valid(root, ref("answer"), message) == nil {
			t.Errorf("the schema takes %s", wrong)
		}
	}
}

// TestSchemaHasAllFields: the schema has the same fields as the Go types.
func TestSchemaHasAllFields(t *testing.T) {
	data, err := os.ReadFile("../../docs/exec.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range []any{request{}, row{}, answer{}} {
		for i := range reflect.TypeOf(of).NumField() {
			name, _, _ := strings.Cut(reflect.TypeOf(of).Field(i).Tag.Get("json"), ",")
			if !bytes.Contains(data, []byte(`"`+name+`": {`)) {
				t.Errorf("%T has the field %q, which the schema does not know", of, name)
			}
		}
	}
}

func ref(name string) map[string]any { return map[string]any{"$ref": "#/$defs/" + name} }

// valid checks a value against a schema, as far as JSON Schema is used here.
func valid(root, schema map[string]any, v any) error {
	for word, rule := range schema {
		if err := keyword(root, schema, word, rule, v); err != nil {
			return err
		}
	}
	return nil
}

// keyword checks a value against one keyword.
func keyword(root, schema map[string]any, word string, rule, v any) error {
	wrong := fmt.Errorf("%v is against %s: %v", v, word, rule)
	number, _ := v.(float64)
	switch word {
	case "$ref":
		name := strings.TrimPrefix(rule.(string), "#/$defs/")
		return valid(root, root["$defs"].(map[string]any)[name].(map[string]any), v)
	case "oneOf":
		fits := 0
		for _, one := range rule.([]any) {
			if valid(root, one.(map[string]any), v) == nil {
				fits++
			}
		}
		if fits != 1 {
			return fmt.Errorf("%d of the kinds of message fit", fits)
		}
	case "type":
		types := map[string]bool{"object": isA[map[string]any](v), "array": isA[[]any](v), "string": isA[string](v),
			"number": isA[float64](v), "integer": isA[float64](v) && number == math.Trunc(number), "boolean": isA[bool](v)}
		either, several := rule.([]any)
		if !several {
			either = []any{rule}
		}
		if !slices.ContainsFunc(either, func(name any) bool { return types[name.(string)] }) {
			return wrong
		}
	case "const":
		if v != rule {
			return wrong
		}
	case "enum":
		if !slices.Contains(rule.([]any), v) {
			return wrong
		}
	case "minimum":
		if number < rule.(float64) {
			return wrong
		}
	case "minItems":
		if len(v.([]any)) < int(rule.(float64)) {
			return wrong
		}
	case "pattern":
		if !regexp.MustCompile(rule.(string)).MatchString(v.(string)) {
			return wrong
		}
	case "items":
		for _, one := range v.([]any) {
			if err := valid(root, rule.(map[string]any), one); err != nil {
				return err
			}
		}
	case "required":
		for _, name := range rule.([]any) {
			if m, _ := v.(map[string]any); m[name.(string)] == nil {
				return wrong
			}
		}
	case "properties", "additionalProperties":
		return properties(root, schema, v)
	case "description":
	default:
		return fmt.Errorf("this test does not know the keyword %s", word)
	}
	return nil
}

// properties checks the members of an object.
func properties(root, schema map[string]any, v any) error {
	known, _ := schema["properties"].(map[string]any)
	object, _ := v.(map[string]any)
	for name, member := range object {
		rule, ok := known[name].(map[string]any)
		if !ok {
			switch others := schema["additionalProperties"].(type) {
			case bool:
				return fmt.Errorf("%q is not known", name)
			case map[string]any:
				rule = others
			}
		}
		if err := valid(root, rule, member); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func isA[T any](v any) bool { _, ok := v.(T); return ok }

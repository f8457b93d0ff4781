package schemas

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// TestPlainCarried: plainCarried returns the same columns as the JSON decoder, or reports that it cannot read the text. It reads two given
// texts, and random texts, of which few are JSON.
func TestPlainCarried(t *testing.T) {
	// decodeJSON also reports whether the text is one object with nothing behind it.
	decodeJSON := func(extra string) (out []CarriedColumn, valid bool) {
		d := json.NewDecoder(strings.NewReader(extra))
		if first, err := d.Token(); err != nil || first != json.Delim('{') {
			return nil, false
		}
		for d.More() {
			name, err := d.Token()
			var c CarriedColumn
			if err == nil {
				err = d.Decode(&c.Value)
			}
			if err != nil {
				return nil, false
			}
			c.Name = name.(string)
			out = append(out, c)
		}
		end, err := d.Token()
		return out, err == nil && end == json.Delim('}') && !d.More()
	}
	plain := 0 // texts that plainCarried could read
	check := func(extra string) {
		got, ok := plainCarried(extra)
		if !ok {
			return
		}
		plain++
		if want, valid := decodeJSON(extra); !valid || !reflect.DeepEqual(got, want) {
			t.Errorf("plainCarried(%q) gives %q, the JSON decoder %q (valid: %v)", extra, got, want, valid)
		}
	}
	for _, extra := range []string{`{"a":"x","b":1,"c":null,"d":true,"é":"ü","f":-1.5e3,"":""}`, `{"a":"x,y}","b":"{}"}`} {
		if check(extra); plain == 0 {
			t.Errorf("plainCarried does not decode %q", extra)
		}
		plain = 0
	}
	pieces := []string{"{", "}", `"`, ":", ",", `"a"`, `"b":`, `:"`, `","`, "1", "-2.5", "null", "tru", "true", "[", "]", "{}", " ", `\"`, "é", "\xff", "x"}
	for range 300_000 {
		text := `{"`
		for range 1 + rand.IntN(9) {
			text += pieces[rand.IntN(len(pieces))]
		}
		check(text)
		check(text + "}")
	}
	if plain < 100 {
		t.Errorf("plainCarried read only %d of the random texts, too few for a test", plain)
	}
}

func BenchmarkCarried(b *testing.B) {
	for b.Loop() {
		if _, err := Carried(`{"category":"animals","score":0.75}`); err != nil {
			b.Fatal(err)
		}
	}
}

package typed

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// AppendJSONText appends s as a JSON string. Invalid UTF-8 becomes U+FFFD, as encoding/json does.
func AppendJSONText(dst []byte, s string) []byte {
	plain := true
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			plain = false
			break
		}
	}
	if plain {
		dst = append(dst, '"')
		dst = append(dst, s...)
		return append(dst, '"')
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // keep < readable
	_ = enc.Encode(s)        // a string into memory cannot fail
	return append(dst, bytes.TrimSuffix(b.Bytes(), []byte("\n"))...)
}

package read

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
)

var errLoneSurrogate = errors.New("not valid Unicode: half of a surrogate pair")

// jsonText decodes a JSON string that is known to be valid. encoding/json silently replaces a lone surrogate; here it is an
// error, because the prompt would differ from what its author wrote.
func jsonText(raw []byte) (string, error) {
	inner := raw[1 : len(raw)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner), nil
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", err
	}
	const replacement = "\uFFFD"
	if got := strings.Count(s, replacement); got > 0 &&
		got > bytes.Count(inner, []byte(replacement))+bytes.Count(bytes.ToLower(inner), []byte(`\ufffd`)) {
		return s, errLoneSurrogate
	}
	return s, nil
}

// members yields the keys and values of a JSON object that is known to be valid. It splits without parsing, because
// encoding/json has checked brackets and quotes.
func members(object []byte, yield func(key, value []byte)) {
	i := 1
	for {
		i = skipSpace(object, i)
		if object[i] == '}' {
			return
		}
		if object[i] == ',' {
			i = skipSpace(object, i+1)
		}
		keyEnd := skipValue(object, i)
		key := object[i:keyEnd]
		i = skipSpace(object, skipSpace(object, keyEnd)+1) // the colon
		valueEnd := skipValue(object, i)
		yield(key, object[i:valueEnd])
		i = valueEnd
	}
}

func skipSpace(b []byte, i int) int {
	for b[i] == ' ' || b[i] == '\t' || b[i] == '\r' || b[i] == '\n' {
		i++
	}
	return i
}

// skipValue returns the end of the JSON value that starts at i.
func skipValue(b []byte, i int) int {
	depth := 0
	for {
		switch b[i] {
		case '"':
			for i++; b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		i++
		if depth == 0 && (i == len(b) || endsScalar(b[i]) || b[i-1] == '"' || b[i-1] == '}' || b[i-1] == ']') {
			return i
		}
	}
}

func endsScalar(c byte) bool {
	switch c {
	case ',', ':', '}', ']', ' ', '\t', '\r', '\n':
		return true
	}
	return false
}

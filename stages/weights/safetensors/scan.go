package safetensors

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// scanner parses the only JSON shape that a header may have: an object of objects. Deeper nesting is an error at its first
// byte, so there is no recursion. It detects duplicate keys, which encoding/json silently merges. It allocates only the
// results.
type scanner struct {
	in string
	at int
}

// minTensor is the length of the shortest tensor in a header.
const minTensor = len(`"":{"dtype":"U8","shape":[],"data_offsets":[0,0]}`)

// header parses the whole header. Only spaces may follow it; writers use them to align the data.
func (s *scanner) header() (entries []entry, metadata map[string]string, err error) {
	if !strings.HasPrefix(s.in, "{") {
		return nil, nil, errors.New("the header does not begin with {")
	}
	entries = make([]entry, 0, min(strings.Count(s.in, `"data_offsets"`), len(s.in)/minTensor))
	for first := true; ; first = false {
		key, more, err := s.member(first)
		if err != nil {
			return nil, nil, err
		}
		if !more {
			break
		}
		switch {
		case key != metadataKey:
			var e entry
			if e, err = s.tensor(key); err != nil {
				return nil, nil, fmt.Errorf("tensor %q: %w", shorten(key), err)
			}
			entries = append(entries, e)
		case metadata != nil:
			return nil, nil, fmt.Errorf("%s appears twice", metadataKey)
		default:
			if metadata, err = s.metadata(); err != nil {
				return nil, nil, fmt.Errorf("%s: %w", metadataKey, err)
			}
		}
	}
	if s.space(); s.at != len(s.in) {
		return nil, nil, errors.New("something follows the header's closing }")
	}
	return entries, metadata, nil
}

// metadata reads an object of strings.
func (s *scanner) metadata() (map[string]string, error) {
	m := map[string]string{}
	for first := true; ; first = false {
		key, more, err := s.member(first)
		if err != nil || !more {
			return m, err
		}
		if _, twice := m[key]; twice {
			return nil, fmt.Errorf("key %q appears twice", shorten(key))
		}
		if len(m) == maxMetadata {
			return nil, fmt.Errorf("more than %d keys", maxMetadata)
		}
		if m[key], err = s.text(); err != nil {
			return nil, fmt.Errorf("key %q: %w", shorten(key), err)
		}
	}
}

// tensor reads {"dtype": ..., "shape": [...], "data_offsets": [begin, end]}, each key once, in any order.
func (s *scanner) tensor(name string) (entry, error) {
	e := entry{name: name}
	var seen [3]bool
	for first := true; ; first = false {
		key, more, err := s.member(first)
		if err != nil {
			return e, err
		}
		if !more {
			break
		}
		field := slices.Index([]string{"dtype", "shape", "data_offsets"}, key)
		switch {
		case field < 0:
			return e, fmt.Errorf("unknown key %q", shorten(key))
		case seen[field]:
			return e, fmt.Errorf("key %q appears twice", key)
		}
		seen[field] = true
		if err := s.field(&e, field); err != nil {
			return e, fmt.Errorf("%s: %w", key, err)
		}
	}
	if seen != [3]bool{true, true, true} {
		return e, errors.New("want dtype, shape and data_offsets")
	}
	return e, nil
}

// field reads the value of dtype (0), shape (1) or data_offsets (2).
func (s *scanner) field(e *entry, field int) (err error) {
	var list [maxAxes]int
	switch field {
	case 0:
		e.dtype, err = s.text()
		return err
	case 1:
		n, err := s.numbers(list[:])
		e.shape = append(make([]int, 0, n), list[:n]...)
		return err
	}
	n, err := s.numbers(list[:2])
	if err == nil && n != 2 {
		err = fmt.Errorf("%d numbers, want 2", n)
	}
	e.begin, e.end = uint64(list[0]), uint64(list[1])
	return err
}

// member returns the key of an object's next member and stops before its value. more is false if it has read the closing
// brace instead. first means that the opening brace has not been read yet.
func (s *scanner) member(first bool) (key string, more bool, err error) {
	if first {
		if err := s.expect('{'); err != nil {
			return "", false, err
		}
	}
	switch {
	case s.peek() == '}':
		s.at++
		return "", false, nil
	case !first:
		if err := s.expect(','); err != nil {
			return "", false, err
		}
	}
	if key, err = s.text(); err != nil {
		return "", false, err
	}
	return key, true, s.expect(':')
}

// numbers reads an array of integers from 0 to the largest int into list and returns their number.
func (s *scanner) numbers(list []int) (n int, err error) {
	if err := s.expect('['); err != nil {
		return 0, err
	}
	if s.peek() == ']' {
		s.at++
		return 0, nil
	}
	for {
		x, err := s.number()
		if err != nil {
			return 0, err
		}
		if n == len(list) {
			return 0, fmt.Errorf("more than %d numbers", len(list))
		}
		list[n] = x
		n++
		if s.peek() == ']' {
			s.at++
			return n, nil
		}
		if err := s.expect(','); err != nil {
			return 0, err
		}
	}
}

// number reads a non-negative integer.
func (s *scanner) number() (int, error) {
	s.space()
	start, n := s.at, 0
	for s.at < len(s.in) && s.in[s.at] >= '0' && s.in[s.at] <= '9' {
		digit := int(s.in[s.at] - '0')
		if n > (math.MaxInt-digit)/10 {
			return 0, errors.New("the number is too large")
		}
		n = n*10 + digit
		s.at++
	}
	switch length := s.at - start; {
	case length == 0:
		return 0, fmt.Errorf("want a non-negative integer, not %s", s.found())
	case length > 1 && s.in[start] == '0':
		return 0, errors.New("a number begins with 0")
	}
	return n, nil
}

// text reads a string. Without escapes, the usual case, the result points into the header.
func (s *scanner) text() (string, error) {
	if err := s.expect('"'); err != nil {
		return "", err
	}
	start, escaped := s.at, false
	for s.at < len(s.in) {
		switch c := s.in[s.at]; {
		case c == '"':
			s.at++
			if !escaped {
				return s.in[start : s.at-1], nil
			}
			var out string
			if err := json.Unmarshal([]byte(s.in[start-1:s.at]), &out); err != nil {
				return "", errors.New("a string has a wrong escape")
			}
			return out, nil
		case c < ' ':
			return "", errors.New("a string holds a control character")
		case c == '\\':
			escaped = true
			s.at++
		}
		s.at++
	}
	return "", errors.New("a string does not end")
}

// expect reads the byte c after any space.
func (s *scanner) expect(c byte) error {
	if s.peek() != c {
		return fmt.Errorf("want %q, not %s", c, s.found())
	}
	s.at++
	return nil
}

// peek returns the next byte after any space, 0 at the end (valid JSON contains no 0).
func (s *scanner) peek() byte {
	s.space()
	if s.at >= len(s.in) {
		return 0
	}
	return s.in[s.at]
}

func (s *scanner) space() {
	for s.at < len(s.in) {
		switch s.in[s.at] {
		case ' ', '\t', '\n', '\r':
			s.at++
		default:
			return
		}
	}
}

// found describes the data at the present position.
func (s *scanner) found() string {
	if s.at >= len(s.in) {
		return "the end"
	}
	return fmt.Sprintf("%q", s.in[s.at])
}

// shorten keeps error messages readable, whatever a file uses as a name.
func shorten(name string) string {
	const most = 120
	if len(name) <= most {
		return name
	}
	return strings.ToValidUTF8(name[:most], "") + "..."
}

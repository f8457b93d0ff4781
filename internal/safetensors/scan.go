package safetensors

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
)

// scanner reads the one JSON shape a header may have: an object of objects. Anything nested deeper is an
// error at its first byte, so there is no recursion to bound; and it sees duplicate keys, which
// encoding/json silently merges.
type scanner struct {
	in []byte
	at int
}

// header reads the whole header; only spaces may follow it, which writers use to align the data.
func (s *scanner) header() (entries []entry, metadata map[string]string, err error) {
	if len(s.in) == 0 || s.in[0] != '{' {
		return nil, nil, errors.New("the header does not begin with {")
	}
	err = s.object(func(key string) error {
		if key != metadataKey {
			e, err := s.tensor(key)
			entries = append(entries, e)
			return err
		}
		if metadata != nil {
			return fmt.Errorf("%s appears twice", metadataKey)
		}
		metadata, err = s.metadata()
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	if s.space(); s.at != len(s.in) {
		return nil, nil, errors.New("something follows the header's closing }")
	}
	return entries, metadata, nil
}

// metadata reads an object of strings.
func (s *scanner) metadata() (map[string]string, error) {
	m := map[string]string{}
	err := s.object(func(key string) error {
		if _, twice := m[key]; twice {
			return fmt.Errorf("%s: key %q appears twice", metadataKey, key)
		}
		value, err := s.text()
		if err != nil {
			return fmt.Errorf("%s: key %q: %w", metadataKey, key, err)
		}
		m[key] = value
		return nil
	})
	return m, err
}

// tensor reads {"dtype": ..., "shape": [...], "data_offsets": [begin, end]}, each key once, in any order.
func (s *scanner) tensor(name string) (entry, error) {
	e := entry{name: name}
	var seen []string
	err := s.object(func(key string) (err error) {
		if slices.Contains(seen, key) {
			return fmt.Errorf("key %q appears twice", key)
		}
		seen = append(seen, key)
		switch key {
		case "dtype":
			e.dtype, err = s.text()
		case "shape":
			e.shape, err = s.numbers(maxAxes)
		case "data_offsets":
			var offsets []int
			if offsets, err = s.numbers(2); err == nil && len(offsets) != 2 {
				return fmt.Errorf("data_offsets has %d numbers, want 2", len(offsets))
			}
			if err == nil {
				e.begin, e.end = uint64(offsets[0]), uint64(offsets[1])
			}
		default:
			return fmt.Errorf("unknown key %q", key)
		}
		return err
	})
	if err == nil && len(seen) != 3 {
		err = fmt.Errorf("has only %q, want dtype, shape and data_offsets", seen)
	}
	if err != nil {
		return e, fmt.Errorf("tensor %q: %w", name, err)
	}
	return e, nil
}

// object reads an object and calls value, which must read one value, after each key.
func (s *scanner) object(value func(key string) error) error {
	if err := s.expect('{'); err != nil {
		return err
	}
	if s.peek() == '}' {
		s.at++
		return nil
	}
	for {
		key, err := s.text()
		if err != nil {
			return err
		}
		if err := s.expect(':'); err != nil {
			return err
		}
		if err := value(key); err != nil {
			return err
		}
		if s.peek() == '}' {
			s.at++
			return nil
		}
		if err := s.expect(','); err != nil {
			return err
		}
	}
}

// numbers reads an array of at most limit integers from 0 to the largest int.
func (s *scanner) numbers(limit int) ([]int, error) {
	if err := s.expect('['); err != nil {
		return nil, err
	}
	list := []int{}
	if s.peek() == ']' {
		s.at++
		return list, nil
	}
	for {
		n, err := s.number()
		if err != nil {
			return nil, err
		}
		if len(list) == limit {
			return nil, fmt.Errorf("more than %d numbers", limit)
		}
		list = append(list, n)
		if s.peek() == ']' {
			s.at++
			return list, nil
		}
		if err := s.expect(','); err != nil {
			return nil, err
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

// text reads a string. Without escapes, the usual case, it needs no decoder.
func (s *scanner) text() (string, error) {
	if err := s.expect('"'); err != nil {
		return "", err
	}
	start, escaped := s.at, false
	for s.at < len(s.in) {
		switch c := s.in[s.at]; {
		case c == '"':
			raw := s.in[start:s.at]
			s.at++
			if !escaped {
				return string(raw), nil
			}
			var out string
			if err := json.Unmarshal(s.in[start-1:s.at], &out); err != nil {
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

// peek returns the next byte after any space, 0 at the end (0 never stands in valid JSON).
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

// found describes what stands at the present place.
func (s *scanner) found() string {
	if s.at >= len(s.in) {
		return "the end"
	}
	return fmt.Sprintf("%q", s.in[s.at])
}

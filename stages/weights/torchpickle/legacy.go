package torchpickle

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// magic is the pickled number at the start of files of torch before 1.6, with its protocol.
const magic = "\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."

// legacyVersion is the only version of that format.
const legacyVersion = 1001

func isLegacy(content []byte) bool {
	return len(content) > 2 && content[0] == 0x80 && bytes.HasPrefix(content[2:], []byte(magic))
}

// readLegacy reads the format of torch before 1.6: the magic number, the version, a dict about the machine, the state dict and
// the list of its storages, each as one pickle; then for each storage its length in elements and its data.
func readLegacy(content []byte) (any, error) {
	rest := content[2+len(magic):]
	known := map[string]*storage{}
	next := func() (any, error) {
		v, n, err := load(rest, func(id tuple) (any, error) { return refer(id, known) })
		rest = rest[n:]
		return v, err
	}
	version, err := next()
	if err != nil {
		return nil, err
	}
	if version != any(int64(legacyVersion)) {
		return nil, errors.New("the version of the format is not 1001")
	}
	system, err := next()
	if err != nil {
		return nil, err
	}
	about, err := convertTo[*dict](system, "a dict about the machine")
	if err != nil {
		return nil, err
	}
	if about.get("little_endian") != any(true) {
		return nil, errors.New("the file was written on a big-endian machine")
	}
	root, err := next()
	if err != nil {
		return nil, err
	}
	keys, err := next()
	if err != nil {
		return nil, err
	}
	return root, attach(keys, known, rest)
}

// get returns the value of a key, nil if there is none.
func (d *dict) get(key string) any {
	for i, k := range d.keys {
		if k == any(key) {
			return d.values[i]
		}
	}
	return nil
}

// attach sets the data of the storages, which is in rest in the order of keys.
func attach(keys any, known map[string]*storage, rest []byte) error {
	order, err := convertTo[*list](keys, "the list of storages")
	if err != nil {
		return err
	}
	for _, k := range order.items {
		key, err := convertTo[string](k, "the name of a storage")
		if err != nil {
			return err
		}
		s, ok := known[key]
		if !ok || s.data != nil {
			return fmt.Errorf("storage %q is listed and not used, or listed twice", shorten(key))
		}
		if len(rest) < 8 {
			return fmt.Errorf("storage %q is missing: the file is cut short", shorten(key))
		}
		if n := binary.LittleEndian.Uint64(rest); n != s.count {
			return fmt.Errorf("storage %q has %d elements, the pickle says %d", shorten(key), n, s.count)
		}
		if s.data, err = part(rest[8:], 0, s.bytes()); err != nil {
			return fmt.Errorf("storage %q: %w", shorten(key), err)
		}
		rest = rest[8+s.bytes():]
	}
	for key, s := range known {
		if s.data == nil {
			return fmt.Errorf("storage %q is not in the file", shorten(key))
		}
	}
	if len(rest) > 0 {
		return fmt.Errorf("%d bytes follow the last storage", len(rest))
	}
	return nil
}

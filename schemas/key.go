package schemas

import (
	"encoding/hex"
	"fmt"
)

// Key names a result by everything it depends on: SHA-256 over the stages (name, version, options,
// weights), the row's parameters and the numeric class. Equal keys mean equal bytes.
type Key [32]byte

// String returns the key as 64 hexadecimal digits, as tables and file names have it.
func (k Key) String() string { return hex.EncodeToString(k[:]) }

// ParseKey parses the form that String returns.
func ParseKey(s string) (Key, error) {
	var k Key
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(k) {
		return k, fmt.Errorf("parse key %q: not 64 hexadecimal digits", s)
	}
	copy(k[:], b)
	return k, nil
}

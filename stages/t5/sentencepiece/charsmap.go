package sentencepiece

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// charsmap is a precompiled_charsmap: a darts-clone double array that maps byte strings to offsets into a blob of
// NUL-terminated replacements. The format is the byte length of the array (little-endian), the array, the blob.
type charsmap struct {
	units []uint32
	blob  string
}

// parseCharsmap validates everything that lookup relies on except offsets; lookup checks them itself.
func parseCharsmap(data []byte) (*charsmap, error) {
	if len(data) == 0 {
		return nil, nil
	}
	if len(data) < 4 {
		return nil, fmt.Errorf("it has %d bytes", len(data))
	}
	size := uint64(binary.LittleEndian.Uint32(data))
	data = data[4:]
	if size == 0 || size%4 != 0 || size > uint64(len(data)) {
		return nil, fmt.Errorf("its trie of %d bytes does not fit the %d bytes that follow", size, len(data))
	}
	c := &charsmap{units: make([]uint32, size/4)}
	for i := range c.units {
		c.units[i] = binary.LittleEndian.Uint32(data[4*i:])
	}
	blob := data[size:]
	for rest := blob; len(rest) > 0; {
		end := bytes.IndexByte(rest, 0)
		if end < 0 || end > maxReplacementBytes {
			return nil, fmt.Errorf("a replacement is longer than %d bytes or has no end", maxReplacementBytes)
		}
		rest = rest[end+1:]
	}
	c.blob = string(blob)
	return c, nil
}

// lookup finds the longest rule that s starts with. It returns the replacement and the rule's length in s, 0 if there is none.
func (c *charsmap) lookup(s string) (replacement string, length int) { return c.find(s, false) }

// find is lookup. With shortest it finds the shortest rule.
func (c *charsmap) find(s string, shortest bool) (replacement string, length int) {
	// The unit layout of darts-clone: bit 31 and the low byte are the label, bit 8 says that a value follows, bits 10 to 30 are
	// the offset, shifted left by 8 if bit 9 is set. A value is a unit with bit 31 set.
	offset := func(u uint32) uint32 { return (u >> 10) << ((u & (1 << 9)) >> 6) }
	found := uint32(0)
	at := offset(c.units[0])
	for i := 0; i < len(s); i++ {
		at ^= uint32(s[i])
		if uint64(at) >= uint64(len(c.units)) {
			break
		}
		u := c.units[at]
		if u&(1<<31|0xff) != uint32(s[i]) {
			break
		}
		at ^= offset(u)
		if u>>8&1 == 1 && uint64(at) < uint64(len(c.units)) {
			found, length = c.units[at]&^(1<<31), i+1
			if shortest {
				break
			}
		}
	}
	if length == 0 || uint64(found) >= uint64(len(c.blob)) {
		return "", 0
	}
	end := int(found)
	for c.blob[end] != 0 {
		end++
	}
	return c.blob[found:end], length
}

package c2pa

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// Types of content (C2PA 2.2, section 11.1.4): four letters and a common suffix.
const (
	storeType      = "c2pa"
	manifestType   = "c2ma"
	updateType     = "c2um"
	assertionsType = "c2as"
	claimType      = "c2cl"
	signatureType  = "c2cs"
	cborType       = "cbor"
	typeTail       = "\x00\x11\x00\x10\x80\x00\x00\xaa\x00\x38\x9b\x71"
)

// named says that a box has a label by which it can be requested.
const named = 0x03

// block is a superbox of JUMBF: its type, its label and its content.
type block struct {
	kind, label string
	content     []byte // for a type that contains other blocks: these
	data        []byte // the superbox without its header: the input of hashes
}

// super encodes a superbox with complete boxes as content.
func super(kind, label string, content ...[]byte) []byte {
	describing := box("jumd", []byte(kind+typeTail), []byte{named}, []byte(label), []byte{0})
	return box("jumb", append([][]byte{describing}, content...)...)
}

// box encodes a box.
func box(kind string, payload ...[]byte) []byte {
	body := bytes.Join(payload, nil)
	b := binary.BigEndian.AppendUint32(nil, uint32(8+len(body)))
	return append(append(b, kind...), body...)
}

// errDamaged says that bytes are not valid JUMBF.
var errDamaged = errors.New("the manifest is damaged")

// next splits the first box from data.
func next(data []byte) (kind string, payload, rest []byte, err error) {
	if len(data) < 8 {
		return "", nil, nil, errDamaged
	}
	size, at := uint64(binary.BigEndian.Uint32(data)), 8
	if size == 1 && len(data) >= 16 {
		size, at = binary.BigEndian.Uint64(data[8:]), 16
	} else if size == 0 {
		size = uint64(len(data))
	}
	if size < uint64(at) || size > uint64(len(data)) {
		return "", nil, nil, errDamaged
	}
	return string(data[4:8]), data[at:size], data[size:], nil
}

// blockOf splits the first superbox from data. ok is false if it is another kind of box.
func blockOf(data []byte) (b block, rest []byte, ok bool, err error) {
	kind, body, rest, err := next(data)
	if err != nil || kind != "jumb" {
		return block{}, rest, false, err
	}
	b.data = body
	describing, head, content, err := next(body)
	if err != nil || describing != "jumd" || len(head) < 17 {
		return block{}, nil, false, errDamaged
	}
	if string(head[4:16]) == typeTail {
		b.kind = string(head[:4])
	}
	if toggles := head[16]; toggles&0x02 != 0 {
		label, _, found := bytes.Cut(head[17:], []byte{0})
		if !found {
			return block{}, nil, false, errDamaged
		}
		b.label = string(label)
	}
	b.content = content
	return b, rest, true, nil
}

// maxBlocks limits the superboxes in one place of a foreign manifest.
const maxBlocks = 10_000

// blocks lists the superboxes of content and ignores other boxes.
func blocks(content []byte) (list []block, err error) {
	for len(content) > 0 {
		var b block
		var ok bool
		if b, content, ok, err = blockOf(content); err != nil {
			return list, err
		}
		if ok {
			list = append(list, b)
		}
		if len(list) > maxBlocks {
			return list, fmt.Errorf("%w: it has more than %d boxes in one place", errDamaged, maxBlocks)
		}
	}
	return list, nil
}

// find returns the block of a type whose label starts with label; ok is false if there is none.
func find(list []block, kind, label string) (b block, ok bool) {
	for _, b := range list {
		if b.kind == kind && len(b.label) >= len(label) && b.label[:len(label)] == label {
			return b, true
		}
	}
	return block{}, false
}

// cborOf returns the content of the box cbor in a block.
func (b block) cborOf() ([]byte, error) {
	kind, payload, _, err := next(b.content)
	if err != nil || kind != "cbor" {
		return nil, errDamaged
	}
	return payload, nil
}

package marks

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"latentbeam/internal/media/c2pa"
)

// xmpBox is the extended type of the box with XMP (ISO 16684-3, table "ISO base media").
var xmpBox = []byte{0xbe, 0x7a, 0xcf, 0xcb, 0x97, 0xa9, 0x42, 0xe8, 0x9c, 0x71, 0x99, 0x94, 0x91, 0xe3, 0xaf, 0xac}

// aigcKey is the key of the item in an mp4.
const aigcKey = "AIGC"

// box is the position of a box of ISO/IEC 14496-12.
type box struct {
	kind       string
	start, end int // with the header
	body       int // start of the payload
}

func (b box) size() int { return b.end - b.start }

// boxes lists the boxes of data, starting at first. A size of 0, which means up to the end, is accepted only at the top level
// of a file, where open is true.
func boxes(data []byte, first, end int, open bool) (list []box, err error) {
	for at := first; at < end; {
		if end-at < 8 {
			return list, fmt.Errorf("%d bytes after the last box", end-at)
		}
		b := box{kind: string(data[at+4 : at+8]), start: at, body: at + 8}
		size := uint64(binary.BigEndian.Uint32(data[at:]))
		switch {
		case size == 1 && end-at >= 16:
			size, b.body = binary.BigEndian.Uint64(data[at+8:]), at+16
		case size == 0 && open:
			size = uint64(end - at)
		}
		if size < uint64(b.body-at) || size > uint64(end-at) {
			return list, fmt.Errorf("box %q at byte %d has an impossible size", b.kind, at)
		}
		b.end = at + int(size)
		list, at = append(list, b), b.end
	}
	return list, nil
}

// find returns the first box of a kind; ok is false if there is none.
func find(list []box, kind string) (b box, ok bool) {
	for _, b := range list {
		if b.kind == kind {
			return b, true
		}
	}
	return box{}, false
}

// movie lists the boxes of a file and finds its moov.
func movie(data []byte) (top []box, moov box, err error) {
	if top, err = boxes(data, 0, len(data), true); err != nil {
		return nil, box{}, err
	}
	moov, ok := find(top, "moov")
	if !ok {
		return nil, box{}, errors.New("the file has no moov")
	}
	if _, fragmented := find(top, "moof"); fragmented {
		return nil, box{}, errors.New("the mp4 has fragments, which are not supported")
	}
	return top, moov, nil
}

// newBox returns a box with a payload.
func newBox(kind string, payload ...[]byte) []byte {
	body := bytes.Join(payload, nil)
	b := binary.BigEndian.AppendUint32(nil, uint32(8+len(body)))
	return append(append(b, kind...), body...)
}

// replace replaces the bytes from start to end, which are complete boxes inside the last of inside. Each box in inside contains
// the next one; empty: the bytes are top-level boxes. It updates the sizes of these boxes and the offsets of samples.
func replace(data []byte, inside []box, start, end int, with []byte) ([]byte, error) {
	out := make([]byte, 0, len(data)+len(with))
	out = append(append(append(out, data[:start]...), with...), data[end:]...)
	delta := len(with) - (end - start)
	for _, b := range inside {
		if err := resize(out, b, delta); err != nil {
			return nil, err
		}
	}
	_, moov, err := movie(out)
	if err != nil {
		return nil, err
	}
	return out, moveOffsets(out, moov, int64(end), int64(delta))
}

// resize changes the size of a box, unless it extends to the end of the file.
func resize(data []byte, b box, delta int) error {
	size := uint64(b.size() + delta)
	switch {
	case binary.BigEndian.Uint32(data[b.start:]) == 1:
		binary.BigEndian.PutUint64(data[b.start+8:], size)
	case binary.BigEndian.Uint32(data[b.start:]) == 0: // it extends to the end of the file
	case size > math.MaxUint32:
		return fmt.Errorf("box %q becomes too large", b.kind)
	default:
		binary.BigEndian.PutUint32(data[b.start:], uint32(size))
	}
	return nil
}

// moveOffsets adds delta to the offsets of samples at or after from.
func moveOffsets(data []byte, moov box, from, delta int64) error {
	children, err := boxes(data, moov.body, moov.end, false)
	if err != nil {
		return err
	}
	for _, trak := range children {
		if trak.kind != "trak" {
			continue
		}
		at := trak
		for _, kind := range []string{"mdia", "minf", "stbl"} {
			within, err := boxes(data, at.body, at.end, false)
			if err != nil {
				return err
			}
			next, ok := find(within, kind)
			if !ok {
				return fmt.Errorf("a track has no %s", kind)
			}
			at = next
		}
		tables, err := boxes(data, at.body, at.end, false)
		if err != nil {
			return err
		}
		for _, t := range tables {
			if err := moveTable(data, t, from, delta); err != nil {
				return err
			}
		}
	}
	return nil
}

// moveTable changes the offsets in an stco or a co64.
func moveTable(data []byte, t box, from, delta int64) error {
	width := map[string]int{"stco": 4, "co64": 8}[t.kind]
	if width == 0 {
		return nil
	}
	if t.end-t.body < 8 {
		return fmt.Errorf("box %s is too short", t.kind)
	}
	count := int64(binary.BigEndian.Uint32(data[t.body+4:]))
	if count*int64(width) > int64(t.end-t.body-8) {
		return fmt.Errorf("box %s is too short for %d offsets", t.kind, count)
	}
	for i := range count {
		entry := data[int64(t.body+8)+i*int64(width):]
		if width == 8 {
			if v := binary.BigEndian.Uint64(entry); v >= uint64(from) {
				binary.BigEndian.PutUint64(entry, v+uint64(delta))
			}
			continue
		}
		v := int64(binary.BigEndian.Uint32(entry))
		if v < from {
			continue
		}
		if v+delta > math.MaxUint32 {
			return errors.New("the file becomes too large for its offsets of 32 bits")
		}
		binary.BigEndian.PutUint32(entry, uint32(v+delta))
	}
	return nil
}

// itemBox returns a meta box with one key and its value, as ffmpeg writes it with -movflags use_metadata_tags (QuickTime File
// Format, chapter Metadata).
func itemBox(value string) []byte {
	flags := make([]byte, 4)
	handler := newBox("hdlr", flags, make([]byte, 4), []byte("mdta"), make([]byte, 12), []byte{0})
	one := binary.BigEndian.AppendUint32(nil, 1)
	keys := newBox("keys", flags, one, newBox("mdta", []byte(aigcKey)))
	data := newBox("data", one, make([]byte, 4), []byte(value)) // UTF-8, no country
	item := newBox(string(one), data)                           // for key number 1
	return newBox("meta", flags, handler, keys, newBox("ilst", item))
}

// freeItem returns a custom item in iTunes' list, which media.Describe writes.
func freeItem(value string) []byte {
	flags, one := make([]byte, 4), binary.BigEndian.AppendUint32(nil, 1)
	return newBox("----", newBox("mean", flags, []byte("com.apple.iTunes")), newBox("name", flags, []byte(aigcKey)),
		newBox("data", one, flags, []byte(value)))
}

// within follows kinds of boxes inwards from a box, each the first of its kind, and returns all boxes on the path; ok is false
// if one is missing. A meta box of ISO has flags before its boxes.
func within(data []byte, from box, kinds ...string) (way []box, ok bool) {
	way = []box{from}
	for _, kind := range kinds {
		if from.kind == "meta" {
			from.body += 4
		}
		children, err := boxes(data, min(from.body, from.end), from.end, false)
		if from, ok = find(children, kind); err != nil || !ok {
			return nil, false
		}
		way = append(way, from)
	}
	return way, true
}

// putItem adds the item AIGC to moov/udta/meta: as a box of keys, or as an item of iTunes' list if media.Describe has written
// one, because a file has only one meta box there.
func putItem(data []byte, value string) ([]byte, error) {
	_, moov, err := movie(data)
	if err != nil {
		return nil, err
	}
	if _, err := boxes(data, moov.body, moov.end, false); err != nil { // a box with a wrong size would hide the item
		return nil, fmt.Errorf("moov: %w", err)
	}
	if way, ok := within(data, moov, "udta", "meta", "ilst"); ok {
		list := way[len(way)-1]
		return replace(data, way, list.end, list.end, freeItem(value))
	}
	if _, has := within(data, moov, "udta"); has {
		return nil, errors.New("moov/udta has no list of items, so the key AIGC cannot be added")
	}
	return replace(data, []box{moov}, moov.end, moov.end, newBox("udta", itemBox(value)))
}

// putXMPBox adds a packet at the end of the file, where it moves nothing.
func putXMPBox(data, xmp []byte) ([]byte, error) {
	top, _, err := movie(data)
	if err != nil {
		return nil, err
	}
	if last := top[len(top)-1]; binary.BigEndian.Uint32(data[last.start:]) == 0 {
		return nil, fmt.Errorf("the last box, %q, has no size", last.kind)
	}
	return append(bytes.Clone(data), newBox("uuid", xmpBox, xmp)...), nil
}

// payloadOf returns the payload of a uuid box with an extended type, nil for another box.
func payloadOf(data []byte, b box, extended []byte) []byte {
	if b.kind == "uuid" && b.end-b.body >= len(extended) && bytes.Equal(data[b.body:b.body+len(extended)], extended) {
		return data[b.body+len(extended) : b.end]
	}
	return nil
}

// stripMP4 removes this program's boxes with XMP and credentials, and the item AIGC that putItem has added.
func stripMP4(data []byte) ([]byte, error) {
	top, _, err := movie(data)
	if err != nil {
		return nil, err
	}
	for i := len(top) - 1; i >= 0; i-- { // from the end, so that earlier positions stay valid
		xmp, store := payloadOf(data, top[i], xmpBox), storeOf(data, top[i])
		if xmp != nil && isOurs(xmp) || store != nil && c2pa.Ours(store) {
			if data, err = replace(data, nil, top[i].start, top[i].end, nil); err != nil {
				return nil, err
			}
		}
	}
	_, moov, err := movie(data)
	if err != nil {
		return nil, err
	}
	way, has := within(data, moov, "udta", "meta", "ilst")
	if !has {
		return data, nil
	}
	for value := range items(data, way[1]) {
		if udta := way[1]; bytes.Equal(data[udta.start:udta.end], newBox("udta", itemBox(value))) {
			return replace(data, way[:1], udta.start, udta.end, nil)
		}
		item, list := freeItem(value), way[3]
		if start := list.end - len(item); start >= list.body && bytes.Equal(data[start:list.end], item) {
			return replace(data, way, start, list.end, nil)
		}
	}
	return data, nil
}

// items yields the values of the key AIGC below a udta or meta box, from any program.
func items(data []byte, b box) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		switch b.kind {
		case "udta":
			children, _ := boxes(data, b.body, b.end, false) // as far as it can be read
			for _, c := range children {
				if c.kind == "meta" {
					for v := range items(data, c) {
						if !yield(v) {
							return
						}
					}
				}
			}
		case "meta":
			if b.end-b.body < 4 {
				return
			}
			children, _ := boxes(data, b.body+4, b.end, false)
			if len(children) == 0 { // QuickTime has no flags here
				children, _ = boxes(data, b.body, b.end, false)
			}
			list, _ := find(children, "ilst")
			keys, _ := find(children, "keys")
			number := keyNumber(data, keys)
			values, _ := boxes(data, list.body, list.end, false)
			for _, v := range values {
				inner, _ := boxes(data, v.body, v.end, false)
				name, free := find(inner, "name")
				ours := number > 0 && binary.BigEndian.Uint32([]byte(v.kind)) == number ||
					free && v.kind == "----" && bytes.Equal(data[name.body:name.end], append(make([]byte, 4), aigcKey...))
				if d, ok := find(inner, "data"); ours && ok && d.end-d.body >= 8 && !yield(string(data[d.body+8:d.end])) {
					return
				}
			}
		}
	}
}

// keyNumber returns the number of the key AIGC in a keys box, from 1; 0 if there is none.
func keyNumber(data []byte, keys box) uint32 {
	if keys.end-keys.body < 8 {
		return 0
	}
	list, _ := boxes(data, keys.body+8, keys.end, false)
	for i, k := range list {
		if k.kind == "mdta" && string(data[k.body:k.end]) == aigcKey {
			return uint32(i + 1)
		}
	}
	return 0
}

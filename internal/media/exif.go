package media

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"encoding/hex"
	"io"
	"regexp"
	"strings"
)

// maxMetadata limits the size of a block of metadata that is read, in bytes.
const maxMetadata = 16 << 20

// orientation returns how an image must be rotated or mirrored, 1 (as stored) to 8: from Exif's tag, else from XMP, as in
// Pillow's exif_transpose.
func orientation(f io.ReaderAt, kind format) int {
	var m metadata
	switch kind {
	case jpegFormat:
		m = jpegMetadata(f)
	case pngFormat:
		m = pngMetadata(f)
	case webpFormat:
		m = webpMetadata(f)
	case tiffFormat:
		o, _, _ := tiffTag(f, tagOrientation)
		_, at, n := tiffTag(f, tagXMP)
		return upright(o, part(f, at, n))
	}
	o, _, _ := tiffTag(bytes.NewReader(m.exif), tagOrientation)
	return upright(o, m.xmp)
}

// metadata are the blocks of an image that may contain its orientation.
type metadata struct {
	exif []byte // a tiff
	xmp  []byte
	raw  bool // a text with Exif was found
}

var xmpOrientation = regexp.MustCompile(`tiff:Orientation(?:="|>)([1-8])`)

// upright returns the orientation of Exif, else of XMP, else 1.
func upright(exif int, xmp []byte) int {
	if exif == 0 {
		if found := xmpOrientation.FindSubmatch(xmp); found != nil {
			exif = int(found[1][0] - '0')
		}
	}
	if exif < 1 || exif > 8 {
		return 1
	}
	return exif
}

// part reads n bytes; nil if they do not exist or are too many.
func part(f io.ReaderAt, at, n int64) []byte {
	if n < 0 || n > maxMetadata || at < 0 {
		return nil
	}
	b, err := io.ReadAll(io.NewSectionReader(f, at, n)) // allocates only what exists
	if err != nil || int64(len(b)) < n {
		return nil
	}
	return b
}

// jpegMetadata reads the segments before the pixels (ITU T.81, B.1.1.3).
func jpegMetadata(f io.ReaderAt) (m metadata) {
	const longest = 1 << 10 // limit for the list of segments
	at := int64(2)
	for range longest {
		head := part(f, at, 4)
		switch {
		case head == nil || head[0] != 0xff || head[1] == 0xda || head[1] == 0xd9:
			return m
		case head[1] == 0xff: // fill byte
			at++
			continue
		}
		size := int64(binary.BigEndian.Uint16(head[2:]))
		if head[1] == 0xe1 && size > 2 {
			m.addSegment(part(f, at+4, size-2))
		}
		at += 2 + size
	}
	return m
}

// addSegment stores the content of a jpeg's application segment, or of a chunk in the same form. The first of each kind counts.
func (m *metadata) addSegment(segment []byte) {
	if exif, found := bytes.CutPrefix(segment, []byte("Exif\x00\x00")); found && m.exif == nil {
		m.exif = exif
	}
	if xmp, found := bytes.CutPrefix(segment, []byte("http://ns.adobe.com/xap/1.0/\x00")); found && m.xmp == nil {
		m.xmp = xmp
	}
}

// pngMetadata reads the chunks: eXIf, XMP as a text, and Exif as a hexadecimal text, which ImageMagick writes.
func pngMetadata(f io.ReaderAt) (m metadata) {
	const longest = 1 << 16 // limit for the list of chunks
	at := int64(8)
	for range longest {
		head := part(f, at, 8)
		if head == nil || string(head[4:]) == "IEND" {
			return m
		}
		size := int64(binary.BigEndian.Uint32(head))
		switch string(head[4:]) {
		case "eXIf":
			m.exif = bytes.TrimPrefix(part(f, at+8, size), []byte("Exif\x00\x00"))
		case "iTXt", "zTXt", "tEXt":
			m.text(string(head[4:]), part(f, at+8, size))
		}
		at += 12 + size
	}
	return m
}

// text stores the content of a png's text. The first with each name counts.
func (m *metadata) text(kind string, chunk []byte) {
	name, body, _ := bytes.Cut(chunk, []byte{0})
	const xmpName, exifName = "XML:com.adobe.xmp", "Raw profile type exif"
	if string(name) != xmpName && string(name) != exifName || string(name) == xmpName && m.xmp != nil || string(name) == exifName && m.raw {
		return
	}
	packed := kind == "zTXt"
	switch {
	case packed && len(body) > 0:
		body = body[1:]
	case kind == "iTXt" && len(body) > 2:
		packed = body[0] != 0
		parts := bytes.SplitN(body[2:], []byte{0}, 3)
		body = parts[len(parts)-1]
	}
	if packed {
		r, err := zlib.NewReader(bytes.NewReader(body))
		if err != nil {
			return
		}
		body, _ = io.ReadAll(io.LimitReader(r, maxMetadata)) // as much as can be decompressed
	}
	switch string(name) {
	case xmpName:
		m.xmp = body
	case exifName: // lines with the name, the length, and hexadecimal data
		m.raw = true
		lines := strings.SplitN(strings.TrimSpace(string(body)), "\n", 3)
		if raw, err := hex.DecodeString(strings.Join(strings.Fields(lines[len(lines)-1]), "")); err == nil && m.exif == nil {
			m.exif = bytes.TrimPrefix(raw, []byte("Exif\x00\x00"))
		}
	}
}

// webpMetadata reads the chunks.
func webpMetadata(f io.ReaderAt) (m metadata) {
	const longest = 1 << 10 // limit for the list of chunks
	at := int64(12)
	for range longest {
		head := part(f, at, 8)
		if head == nil {
			return m
		}
		size := int64(binary.LittleEndian.Uint32(head[4:]))
		switch string(head[:4]) {
		case "EXIF":
			m.exif = bytes.TrimPrefix(part(f, at+8, size), []byte("Exif\x00\x00"))
		case "XMP ":
			m.xmp = part(f, at+8, size)
		}
		at += 8 + size + size%2
	}
	return m
}

// Tags of a tiff's directory.
const (
	tagCompression = 259
	tagPhotometric = 262
	tagOrientation = 274
	tagXMP         = 700
)

// tiffTag returns the first number of a tag in a tiff's first directory, 0 if there is none, and the position and count of
// further numbers.
func tiffTag(f io.ReaderAt, tag uint16) (value int, at, count int64) {
	head := part(f, 0, 8)
	if head == nil {
		return 0, 0, 0
	}
	var order binary.ByteOrder = binary.LittleEndian
	if string(head[:2]) == "MM" {
		order = binary.BigEndian
	} else if string(head[:2]) != "II" {
		return 0, 0, 0
	}
	directory := int64(order.Uint32(head[4:]))
	n := part(f, directory, 2)
	if n == nil {
		return 0, 0, 0
	}
	const entry, long = 12, 4
	entries, _ := io.ReadAll(io.NewSectionReader(f, directory+2, entry*int64(order.Uint16(n)))) // the entries that exist
	for ; len(entries) >= entry; entries = entries[entry:] {
		if order.Uint16(entries) != tag {
			continue
		}
		if value = int(order.Uint16(entries[8:])); order.Uint16(entries[2:]) == long {
			value = int(order.Uint32(entries[8:]))
		}
		return value, int64(order.Uint32(entries[8:])), int64(order.Uint32(entries[4:]))
	}
	return 0, 0, 0
}

// turned copies a frame of w x h stored pixels and applies an orientation. Orientations from 5 on swap the sides.
func turned(dst, src []byte, w, h, o int) {
	outW, outH := w, h
	if o >= 5 {
		outW, outH = h, w
	}
	for y := range outH {
		for x := range outW {
			sx, sy := x, y
			if o >= 5 {
				sx, sy = y, x
			}
			if o == 2 || o == 3 || o == 7 || o == 8 { // mirrored horizontally in the stored image
				sx = w - 1 - sx
			}
			if o == 3 || o == 4 || o == 6 || o == 7 {
				sy = h - 1 - sy
			}
			copy(dst[3*(y*outW+x):][:3], src[3*(sy*w+sx):][:3])
		}
	}
}

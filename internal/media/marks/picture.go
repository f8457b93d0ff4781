package marks

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	"latentbeam/internal/media/c2pa"
)

// pngSignature starts a png. pngHead is its length with IHDR.
const (
	pngSignature = "\x89PNG\r\n\x1a\n"
	pngHead      = 8 + 25
)

// pngXMP is the keyword of the XMP chunk and the fields after it: uncompressed, no language (ISO 16684-3, PNG).
const pngXMP = "XML:com.adobe.xmp\x00\x00\x00\x00\x00"

// chunk is the position of a chunk of a png.
type chunk struct {
	kind       string
	start, end int // with length and checksum
}

func (c chunk) body(data []byte) []byte { return data[c.start+8 : c.end-4] }

// chunks lists the chunks of a png.
func chunks(data []byte) (list []chunk, err error) {
	if !bytes.HasPrefix(data, []byte(pngSignature)) {
		return nil, errors.New("the file is no png")
	}
	for at := len(pngSignature); at < len(data); {
		if len(data)-at < 12 {
			return list, errors.New("the png ends in a chunk")
		}
		n := int64(binary.BigEndian.Uint32(data[at:]))
		if n > int64(len(data)-at-12) {
			return list, errors.New("the png ends in a chunk")
		}
		c := chunk{string(data[at+4 : at+8]), at, at + 12 + int(n)}
		list, at = append(list, c), c.end
		if c.kind == "IEND" {
			break
		}
	}
	return list, nil
}

func newChunk(kind string, body []byte) []byte {
	typed := append([]byte(kind), body...)
	out := append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), typed...)
	return binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(typed))
}

// putPNG inserts a packet after IHDR.
func putPNG(data, xmp []byte) ([]byte, error) {
	list, err := chunks(data)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 || list[0].kind != "IHDR" || list[0].end != pngHead {
		return nil, errors.New("the png does not begin with IHDR")
	}
	return insert(data, pngHead, newChunk("iTXt", append([]byte(pngXMP), xmp...))), nil
}

// insert returns data with more inserted at a position.
func insert(data []byte, at int, more []byte) []byte {
	out := make([]byte, 0, len(data)+len(more))
	return append(append(append(out, data[:at]...), more...), data[at:]...)
}

func stripPNG(data []byte) ([]byte, error) {
	list, err := chunks(data)
	if err != nil {
		return nil, err
	}
	for i := len(list) - 1; i >= 0; i-- {
		xmp, ok := pngPacket(data, list[i])
		if ok && isOurs(xmp) || list[i].kind == pngCredentials && c2pa.Ours(list[i].body(data)) {
			data = append(bytes.Clone(data[:list[i].start]), data[list[i].end:]...)
		}
	}
	return data, nil
}

// pngPacket returns the XMP of a chunk, if it has one.
func pngPacket(data []byte, c chunk) ([]byte, bool) {
	if c.kind != "iTXt" {
		return nil, false
	}
	return bytes.CutPrefix(c.body(data), []byte(pngXMP))
}

// jpegXMP starts the APP1 segment with XMP (ISO 16684-3, JPEG).
const jpegXMP = "http://ns.adobe.com/xap/1.0/\x00"

// segment is the position of a segment of a jpeg before its first scan.
type segment struct {
	marker     byte
	start, end int // with the marker
}

func (s segment) body(data []byte) []byte { return data[s.start+4 : s.end] }

// segments lists the segments of a jpeg up to its first scan.
func segments(data []byte) (list []segment, err error) {
	if !bytes.HasPrefix(data, []byte("\xff\xd8")) {
		return nil, errors.New("the file is no jpeg")
	}
	const startOfScan, endOfImage = 0xda, 0xd9
	for at := 2; ; {
		if len(data)-at < 4 || data[at] != 0xff {
			return list, errors.New("the jpeg ends before its picture")
		}
		marker := data[at+1]
		if marker == 0xff { // fill byte
			at++
			continue
		}
		if marker == startOfScan || marker == endOfImage {
			return list, nil
		}
		if marker == 0x01 || marker >= 0xd0 && marker <= 0xd7 { // without a length
			at += 2
			continue
		}
		n := int(binary.BigEndian.Uint16(data[at+2:]))
		if n < 2 || at+2+n > len(data) {
			return list, fmt.Errorf("segment %02x of the jpeg has an impossible length", marker)
		}
		list = append(list, segment{marker, at, at + 2 + n})
		at += 2 + n
	}
}

// putJPEG inserts a packet after the start of the image and a JFIF segment.
func putJPEG(data, xmp []byte) ([]byte, error) {
	list, err := segments(data)
	if err != nil {
		return nil, err
	}
	at := 2
	if len(list) > 0 && list[0].marker == 0xe0 {
		at = list[0].end
	}
	body := append([]byte(jpegXMP), xmp...)
	if len(body)+2 > math.MaxUint16 {
		return nil, fmt.Errorf("%d bytes of XMP are too many for a jpeg", len(xmp))
	}
	head := binary.BigEndian.AppendUint16([]byte{0xff, 0xe1}, uint16(len(body)+2))
	return insert(data, at, append(head, body...)), nil
}

func stripJPEG(data []byte) ([]byte, error) {
	list, err := segments(data)
	if err != nil {
		return nil, err
	}
	for i := len(list) - 1; i >= 0; i-- {
		if xmp, ok := jpegPacket(data, list[i]); ok && isOurs(xmp) {
			data = append(bytes.Clone(data[:list[i].start]), data[list[i].end:]...)
		}
	}
	return data, nil
}

// jpegPacket returns the XMP of a segment, if it has one.
func jpegPacket(data []byte, s segment) ([]byte, bool) {
	if s.marker != 0xe1 {
		return nil, false
	}
	return bytes.CutPrefix(s.body(data), []byte(jpegXMP))
}

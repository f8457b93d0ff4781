package marks

import (
	"bytes"
	"errors"
	"strings"
)

// Found is a mark in a file.
type Found struct {
	Name  string `json:"name"`  // iptc, aigc or c2pa
	Where string `json:"where"` // position in the file, such as "moov/udta/meta"
	Value string `json:"value"` // for c2pa: the kind of source

	// For c2pa: the program that created the manifest, the name in the certificate of the signature, and why the signature is
	// not valid for the file, "" if it is. The package does not decide whether the certificate can be trusted.
	Generator  string `json:"generator,omitempty"`
	Signer     string `json:"signer,omitempty"`
	SelfSigned bool   `json:"self_signed,omitempty"`
	Problem    string `json:"problem,omitempty"`
	// For a signature with a time stamp: when an authority saw it (RFC 3339, UTC), the name in the authority's certificate, and
	// why the time stamp is invalid, "" if it is valid.
	Time         string `json:"time,omitempty"`
	StampedBy    string `json:"time_stamped_by,omitempty"`
	StampProblem string `json:"time_stamp_problem,omitempty"`
}

// Synthetic reports whether the mark says that a model made the media, completely or partly.
func (f Found) Synthetic() bool {
	switch f.Name {
	case AIGC:
		return true // 1 is "is", 2 "may be", 3 "is suspected to be": each counts
	case IPTC, C2PA:
		return strings.HasSuffix(strings.ToLower(f.Value), "trainedalgorithmicmedia")
	}
	return false
}

// ErrUnknown says that the format of a file is not supported.
var ErrUnknown = errors.New("the file is no mp4, png or jpeg")

// IsMedia reports whether a file starts like a format that Inspect supports; 12 bytes are enough.
func IsMedia(head []byte) bool {
	return bytes.HasPrefix(head, []byte(pngSignature)) || bytes.HasPrefix(head, []byte("\xff\xd8\xff")) ||
		len(head) >= 12 && string(head[4:8]) == "ftyp"
}

// Inspect lists the marks of a file, from any program. For a damaged file it returns the marks before the damage and an error.
func Inspect(data []byte) ([]Found, error) {
	switch {
	case bytes.HasPrefix(data, []byte(pngSignature)):
		return inspectPNG(data)
	case bytes.HasPrefix(data, []byte("\xff\xd8\xff")):
		return inspectJPEG(data)
	case len(data) >= 12 && string(data[4:8]) == "ftyp":
		return inspectMP4(data)
	}
	return nil, ErrUnknown
}

// inPacket lists the marks of an XMP packet.
func inPacket(where string, xmp []byte) (list []Found, err error) {
	source, item, err := properties(xmp)
	if source != "" {
		list = append(list, Found{Name: IPTC, Where: where, Value: source})
	}
	if item != "" {
		list = append(list, Found{Name: AIGC, Where: where, Value: item})
	}
	return list, err
}

func inspectMP4(data []byte) (list []Found, err error) {
	top, err := boxes(data, 0, len(data), true)
	for _, b := range top {
		if b.kind == "moov" {
			children, childErr := boxes(data, b.body, b.end, false)
			err = errors.Join(err, childErr)
			for _, c := range children {
				where := "moov/meta"
				if c.kind == "udta" {
					where = "moov/udta/meta"
				}
				for value := range items(data, c) {
					list = append(list, Found{Name: AIGC, Where: where, Value: value})
				}
			}
		}
		if xmp := payloadOf(data, b, xmpBox); xmp != nil {
			found, xmpErr := inPacket("a box uuid with XMP", xmp)
			list, err = append(list, found...), errors.Join(err, xmpErr)
		}
		if store := storeOf(data, b); store != nil {
			list = append(list, signature(data, "a box uuid", store))
		}
	}
	return list, err
}

func inspectPNG(data []byte) (list []Found, err error) {
	all, err := chunks(data)
	for _, c := range all {
		if xmp, ok := pngPacket(data, c); ok {
			found, xmpErr := inPacket("a chunk iTXt with XMP", xmp)
			list, err = append(list, found...), errors.Join(err, xmpErr)
		}
		if value, ok := pngText(c, data); ok {
			list = append(list, Found{Name: AIGC, Where: "a chunk " + c.kind, Value: value})
		}
		if c.kind == pngCredentials {
			list = append(list, signature(data, "a chunk "+c.kind, c.body(data)))
		}
	}
	return list, err
}

// pngText returns the value of a text chunk with the keyword AIGC, which some programs write.
func pngText(c chunk, data []byte) (string, bool) {
	switch c.kind {
	case "tEXt":
		if value, ok := bytes.CutPrefix(c.body(data), []byte(aigcKey+"\x00")); ok {
			return string(value), true
		}
	case "iTXt":
		rest, ok := bytes.CutPrefix(c.body(data), []byte(aigcKey+"\x00\x00\x00"))
		if !ok {
			return "", false
		}
		for range 2 { // language, translated keyword
			if _, rest, ok = bytes.Cut(rest, []byte{0}); !ok {
				return "", false
			}
		}
		return string(rest), true
	}
	return "", false
}

func inspectJPEG(data []byte) (list []Found, err error) {
	all, err := segments(data)
	var store []byte
	for _, s := range all {
		if xmp, ok := jpegPacket(data, s); ok {
			found, xmpErr := inPacket("a segment APP1 with XMP", xmp)
			list, err = append(list, found...), errors.Join(err, xmpErr)
		}
		// JUMBF is stored in APP11 segments, each with a number; every segment repeats the first eight bytes of the box
		// (ISO/IEC 19566-5, annex D).
		const app11, head = 0xeb, 8
		if body := s.body(data); s.marker == app11 && len(body) > head+8 && string(body[:2]) == "JP" {
			if len(store) > 0 {
				body = body[8:]
			}
			store = append(store, body[head:]...)
		}
	}
	if store != nil {
		list = append(list, signature(data, "segments APP11", store))
	}
	return list, err
}

// Package marks puts machine-readable marks of synthetic media into mp4, png and jpeg files, removes them again, and
// finds them in files of any origin. Its functions take and return bytes: they use no clock, no disk and no network. Equal
// arguments give equal bytes, and Strip returns exactly the bytes that Put was given.
//
// A mark is one of:
//
//	iptc  XMP with the property DigitalSourceType of the IPTC Photo Metadata Standard 2025.1 (video: IPTC Video Metadata
//	      Hub), whose values are https://cv.iptc.org/newscodes/digitalsourcetype/
//	aigc  the key AIGC of GB 45438-2025: an item of moov/udta/meta in an mp4, the property AIGC of the namespace
//	      http://www.tc260.org.cn/ns/AIGC/1.0/ in the XMP of a picture
//	c2pa  a signed manifest of content credentials (internal/media/c2pa) in an mp4 or a png
package marks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"latentbeam/internal/media/c2pa"
)

// The names of the marks.
const (
	IPTC = "iptc"
	AIGC = "aigc"
	C2PA = "c2pa"
)

// The kinds of sources in IPTC's vocabulary (see the package comment).
const (
	sourceTypes = "http://cv.iptc.org/newscodes/digitalsourcetype/"
	// Generated: a model made the media.
	Generated = sourceTypes + "trainedAlgorithmicMedia"
	// Composite: a model made the media from other media.
	Composite = sourceTypes + "compositeWithTrainedAlgorithmicMedia"
)

// toolkit is the name of this program in XMP. Strip recognises its packets by it.
const toolkit = "latentbeam"

// Wanted says which marks a file gets.
type Wanted struct {
	IPTC, AIGC bool
	Producer   string       // for aigc: the provider of the service; "": unspecified
	Signer     *c2pa.Signer // nil: no c2pa
}

// Subject is the file that is marked.
type Subject struct {
	ID        string // for aigc: the row's key
	Composite bool   // the model was given other media
	// Facts about how the file was made, for c2pa; "" and nil: unspecified.
	Model, Weights string
	Parameters     map[string]string
}

// claim returns what a signature says about the file.
func (s Subject) claim() c2pa.Claim {
	return c2pa.Claim{ID: s.ID, Source: s.source(), Model: s.Model, Weights: s.Weights, Parameters: s.Parameters}
}

// source returns the kind of source of the file.
func (s Subject) source() string {
	if s.Composite {
		return Composite
	}
	return Generated
}

// ErrFormat says that this type of file cannot carry marks.
var ErrFormat = errors.New("only mp4, png and jpeg files take marks")

// Put adds marks to a file of type ext (".mp4", ".png", ".jpg") that has no marks of this program. It returns an error for
// files that it cannot mark.
func Put(data []byte, ext string, w Wanted, s Subject) ([]byte, error) {
	item := ""
	if w.AIGC {
		item = aigcItem(w.Producer, s.ID)
	}
	var out []byte
	var err error
	switch ext {
	case ".mp4":
		if out = data; item != "" {
			out, err = putItem(out, item)
		}
		if err == nil && w.IPTC {
			out, err = putXMPBox(out, packet(s.source(), ""))
		}
		if err == nil && w.Signer != nil {
			out, err = signMP4(out, w.Signer, s.claim())
		}
	case ".png", ".jpg":
		source := ""
		if w.IPTC {
			source = s.source()
		}
		switch {
		case source == "" && item == "":
			out = data
		case ext == ".png":
			out, err = putPNG(data, packet(source, item))
		default:
			out, err = putJPEG(data, packet(source, item))
		}
		if err == nil && ext == ".png" && w.Signer != nil {
			out, err = signPNG(out, w.Signer, s.claim())
		}
	default:
		err = ErrFormat
	}
	if err != nil {
		return nil, fmt.Errorf("mark a file %s: %w", ext, err)
	}
	return out, nil
}

// Strip removes the marks that Put has added. Marks of other programs stay. A file without marks is returned unchanged.
func Strip(data []byte, ext string) (out []byte, err error) {
	switch ext {
	case ".mp4":
		out, err = stripMP4(data)
	case ".png":
		out, err = stripPNG(data)
	case ".jpg":
		out, err = stripJPEG(data)
	default:
		err = ErrFormat
	}
	if err != nil {
		return nil, fmt.Errorf("take the marks out of a file %s: %w", ext, err)
	}
	return out, nil
}

// aigcValue is the value of the key AIGC (GB 45438-2025, annex E).
type aigcValue struct {
	Label             string // "1": made by artificial intelligence
	ContentProducer   string
	ProduceID         string
	ReservedCode1     string
	ContentPropagator string
	PropagateID       string
	ReservedCode2     string
}

func aigcItem(producer, id string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(aigcValue{Label: "1", ContentProducer: producer, ProduceID: id}) // texts only
	return string(bytes.TrimSpace(b.Bytes()))
}

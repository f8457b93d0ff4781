package marks

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
)

// Namespaces of XMP (ISO 16684-1) and of the properties that are marks.
const (
	rdfSpace  = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
	iptcSpace = "http://iptc.org/std/Iptc4xmpExt/2008-02-29/"
	aigcSpace = "http://www.tc260.org.cn/ns/AIGC/1.0/"
)

// packet returns an XMP packet with the properties that are not "".
func packet(source, item string) []byte {
	var b bytes.Buffer
	b.WriteString("<?xpacket begin=\"\ufeff\" id=\"W5M0MpCehiHzreSzNTczkc9d\"?>\n" +
		`<x:xmpmeta xmlns:x="adobe:ns:meta/" x:xmptk="` + toolkit + `"><rdf:RDF xmlns:rdf="` + rdfSpace + `">` +
		`<rdf:Description rdf:about=""`)
	property := func(name, value string) {
		if value != "" {
			b.WriteString("<" + name + ">")
			_ = xml.EscapeText(&b, []byte(value)) // cannot fail in memory
			b.WriteString("</" + name + ">")
		}
	}
	if source != "" {
		b.WriteString(` xmlns:Iptc4xmpExt="` + iptcSpace + `"`)
	}
	if item != "" {
		b.WriteString(` xmlns:TC260="` + aigcSpace + `"`)
	}
	b.WriteString(">")
	property("Iptc4xmpExt:DigitalSourceType", source)
	property("TC260:AIGC", item)
	b.WriteString("</rdf:Description></rdf:RDF></x:xmpmeta>\n<?xpacket end=\"w\"?>")
	return b.Bytes()
}

// isOurs reports whether a packet was made by packet.
func isOurs(xmp []byte) bool {
	return bytes.Contains(xmp, []byte(`x:xmptk="`+toolkit+`"`)) && bytes.HasPrefix(xmp, []byte("<?xpacket "))
}

// maxXMP limits a foreign packet in bytes, and maxDepth the nesting of its elements.
const (
	maxXMP   = 4 << 20
	maxDepth = 64
)

// errXMP says that a packet is too large or nested too deeply.
var errXMP = errors.New("the XMP packet is too large")

// properties finds the properties that are marks in a packet from any program, as elements or attributes. For a truncated
// packet it returns the properties before its end.
func properties(xmp []byte) (source, item string, err error) {
	if len(xmp) > maxXMP {
		return "", "", errXMP
	}
	d := xml.NewDecoder(bytes.NewReader(xmp))
	d.Strict = false
	d.CharsetReader = func(_ string, r io.Reader) (io.Reader, error) { return r, nil }
	var open []xml.Name
	var text strings.Builder
	found := func(name xml.Name) *string {
		switch {
		case name.Space == iptcSpace && name.Local == "DigitalSourceType":
			return &source
		case name.Space == aigcSpace && name.Local == "AIGC":
			return &item
		}
		return nil
	}
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return source, item, nil
		}
		if err != nil {
			return source, item, err
		}
		//nolint:errorlint // tokens are no errors
		switch t := token.(type) {
		case xml.StartElement:
			if open = append(open, t.Name); len(open) > maxDepth {
				return source, item, errXMP
			}
			text.Reset()
			for _, a := range t.Attr {
				if at := found(a.Name); at != nil {
					*at = a.Value
				}
				// rdf:resource contains a value that is an address.
				if at := found(t.Name); at != nil && a.Name.Space == rdfSpace && a.Name.Local == "resource" {
					*at = a.Value
				}
			}
		case xml.CharData:
			text.Write(t)
		case xml.EndElement:
			if at := found(t.Name); at != nil && strings.TrimSpace(text.String()) != "" {
				*at = strings.TrimSpace(text.String())
			}
			open = open[:max(0, len(open)-1)]
			text.Reset()
		}
	}
}

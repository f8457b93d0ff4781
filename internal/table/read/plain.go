package read

import (
	"bytes"
	"errors"
	"io"
	"unicode/utf8"
)

// errUTF16 is the error for text in UTF-16.
var errUTF16 = errors.New("it is UTF-16; save it as UTF-8, or convert it: iconv -f UTF-16 -t UTF-8 OLD > NEW")

// Plain normalises a text from a text editor, such as a caption beside a video: it removes a byte order mark and turns lone
// carriage returns (line ends of old systems) into newlines. It refuses UTF-16, NUL characters and bytes that are not UTF-8.
func Plain(data []byte) (string, error) {
	if isUTF16(data) {
		return "", errUTF16
	}
	data = bytes.TrimPrefix(data, utf8BOM)
	switch {
	case bytes.IndexByte(data, 0) >= 0:
		return "", errNUL
	case !utf8.Valid(data):
		return "", errors.New("not valid UTF-8; save it as UTF-8")
	}
	if bytes.IndexByte(data, '\r') >= 0 {
		data = bytes.Clone(data)
		for i, c := range data {
			if c == '\r' && (i+1 == len(data) || data[i+1] != '\n') {
				data[i] = '\n'
			}
		}
	}
	return string(data), nil
}

// errNUL is the error for text with a NUL character.
var errNUL = errors.New("it holds a NUL character: the file is damaged, or UTF-16 without its mark")

// isUTF16 reports whether a text starts with UTF-16's byte order mark.
func isUTF16(head []byte) bool {
	return bytes.HasPrefix(head, []byte("\xff\xfe")) || bytes.HasPrefix(head, []byte("\xfe\xff"))
}

// endsInCR reports whether the lines of a text end in a carriage return only, as on old systems.
func endsInCR(file io.ReaderAt) bool {
	head := make([]byte, readBufferBytes)
	n, _ := file.ReadAt(head, 0)
	return bytes.IndexByte(head[:n], '\r') >= 0 && bytes.IndexByte(head[:n], '\n') < 0
}

// newlines reads such a text with newlines instead of carriage returns.
type newlines struct{ io.ReaderAt }

// ReadAt implements io.ReaderAt.
func (r newlines) ReadAt(p []byte, off int64) (int, error) {
	n, err := r.ReaderAt.ReadAt(p, off)
	for i := range p[:n] {
		if p[i] == '\r' {
			p[i] = '\n'
		}
	}
	return n, err
}

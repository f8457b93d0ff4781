package read

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"latentbeam/internal/config/document"
	"latentbeam/internal/table/pages"
	"latentbeam/internal/table/typed"
)

// lineReader reads a text file line by line. Lines may have any length.
type lineReader struct {
	file *text
	buf  *bufio.Reader
	long []byte // a line that does not fit into buf
	line int    // number of the last line, from 1
}

var utf8BOM = []byte("\xef\xbb\xbf")

// openLines opens a text file, compressed or not, and skips its byte order mark. It refuses UTF-16.
func openLines(path string) (*lineReader, error) {
	file, err := openText(path)
	if err != nil {
		return nil, pages.Unopened(path, err)
	}
	l := &lineReader{file: file, buf: bufio.NewReaderSize(file, readBufferBytes)}
	head, err := l.buf.Peek(len(utf8BOM))
	if err != nil && !errors.Is(err, io.EOF) {
		_ = file.close()
		return nil, document.NewError(document.Position{File: path}, "%v", err)
	}
	switch {
	case bytes.Equal(head, utf8BOM):
		_, err = l.buf.Discard(len(utf8BOM))
	case isUTF16(head):
		err = errUTF16
	default:
		err = nil
	}
	if err != nil {
		_ = file.close()
		return nil, document.NewError(document.Position{File: path}, "%v", err)
	}
	return l, nil
}

// errTooLong says that a line is longer than typed.MaxRecordBytes. The reader skips the line.
var errTooLong = fmt.Errorf("longer than %d MiB", typed.MaxRecordBytes>>20)

// read returns the next line without its end, valid until the next call, io.EOF after the last, or
// errTooLong.
func (l *lineReader) read() ([]byte, error) {
	text, err := l.buf.ReadSlice('\n')
	if len(text) == 0 && err != nil {
		return nil, err
	}
	l.line++
	if errors.Is(err, bufio.ErrBufferFull) {
		if text, err = l.readLong(text); err != nil {
			return nil, err
		}
	} else if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	text = bytes.TrimSuffix(text, []byte("\n"))
	return bytes.TrimSuffix(text, []byte("\r")), nil
}

func (l *lineReader) readLong(first []byte) ([]byte, error) {
	l.long = append(l.long[:0], first...)
	tooLong := false
	for {
		part, err := l.buf.ReadSlice('\n')
		if len(l.long)+len(part) > typed.MaxRecordBytes {
			tooLong = true
		}
		if !tooLong {
			l.long = append(l.long, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && !errors.Is(err, io.EOF):
			return nil, err
		case tooLong:
			return nil, errTooLong
		}
		return l.long, nil
	}
}

func (l *lineReader) close() error { return l.file.close() }

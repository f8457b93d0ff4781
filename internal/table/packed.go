package table

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// packings unpack a text file by the end of its name.
var packings = map[string]func(io.Reader) (io.ReadCloser, error){
	".gz": func(r io.Reader) (io.ReadCloser, error) { return gzip.NewReader(r) },
	".zst": func(r io.Reader) (io.ReadCloser, error) {
		d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	},
}

// openText opens a text file. A packed one is unpacked into a temporary file without a name, because readers go back
// in it; the system removes that when it is closed.
func openText(path string) (*os.File, error) {
	file, err := os.Open(path)
	unpack := packings[strings.ToLower(filepath.Ext(path))]
	if err != nil || unpack == nil {
		return file, err
	}
	defer file.Close()
	plain, err := os.CreateTemp("", "latentbeam-table-")
	if err != nil {
		return nil, fmt.Errorf("unpack: %w", err)
	}
	err = os.Remove(plain.Name())
	if err == nil {
		err = unpackInto(plain, file, unpack)
	}
	if err != nil {
		_ = plain.Close()
		return nil, fmt.Errorf("unpack: %w", err)
	}
	return plain, nil
}

// unpackInto writes the text of a packed file, and goes back to its beginning.
func unpackInto(plain, file *os.File, unpack func(io.Reader) (io.ReadCloser, error)) error {
	r, err := unpack(bufio.NewReaderSize(file, readBufferBytes))
	if err != nil {
		return err
	}
	defer r.Close()
	if _, err := io.Copy(plain, r); err != nil {
		return err
	}
	_, err = plain.Seek(0, io.SeekStart)
	return err
}

package read

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"latentbeam/internal/storage/source"
)

// packings decompress a text file, by the suffix of its name.
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

// text is an open text file that supports seeking.
type text struct {
	*io.SectionReader
	close func() error
}

// openText opens a text file. A compressed file is decompressed to an unlinked temporary file, which the system removes when it
// is closed.
func openText(path string) (*text, error) {
	file, err := source.Copy(context.Background(), path)
	if err != nil {
		return nil, err
	}
	unpack := packings[packingOf(path, file)]
	if unpack == nil {
		return newText(file, file.Size(), file.Close), nil
	}
	defer file.Close()
	plain, err := os.CreateTemp("", "latentbeam-table-")
	if err != nil {
		return nil, fmt.Errorf("unpack: %w", err)
	}
	err = os.Remove(plain.Name())
	var n int64
	if err == nil {
		n, err = unpackInto(plain, io.NewSectionReader(file, 0, file.Size()), unpack)
	}
	if err != nil {
		_ = plain.Close()
		return nil, fmt.Errorf("unpack: %w", err)
	}
	return newText(plain, n, plain.Close), nil
}

// newText returns the text of a file with size bytes.
func newText(file io.ReaderAt, size int64, close func() error) *text {
	if endsInCR(file) {
		file = newlines{file}
	}
	return &text{io.NewSectionReader(file, 0, size), close}
}

// packingOf returns the compression by a file's name. Standard input has no name, so its first bytes decide.
func packingOf(path string, file io.ReaderAt) string {
	if path != source.Stdin {
		return strings.ToLower(filepath.Ext(path))
	}
	for ext, first := range map[string]string{".gz": "\x1f\x8b", ".zst": "\x28\xb5\x2f\xfd"} {
		got := make([]byte, len(first))
		if n, _ := file.ReadAt(got, 0); string(got[:n]) == first {
			return ext
		}
	}
	return ""
}

// maxUnpacked limits the ratio of decompressed to compressed bytes, beyond minUnpacked bytes. Text of real tables has 3 to 30.
// gzip can reach 1032, and zstd a thousand times that, which fills a disk.
const (
	maxUnpacked = 1100
	minUnpacked = 1 << 20
)

// unpackInto writes the text of a compressed file and returns its length.
func unpackInto(plain io.Writer, file *io.SectionReader, unpack func(io.Reader) (io.ReadCloser, error)) (int64, error) {
	r, err := unpack(bufio.NewReaderSize(file, readBufferBytes))
	if err != nil {
		return 0, err
	}
	defer r.Close()
	most := minUnpacked + maxUnpacked*file.Size()
	n, err := io.CopyN(plain, r, most+1)
	switch {
	case n > most:
		return 0, fmt.Errorf("%d bytes hold more than %d bytes of text, so this is no table: unpack it by hand and look", file.Size(), most)
	case errors.Is(err, io.EOF):
		err = nil
	}
	return n, err
}

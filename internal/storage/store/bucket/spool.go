package bucket

import (
	"bytes"
	"fmt"
	"os"
)

// spoolBytes is how much of new content is held in memory; more is written to a temporary file.
const spoolBytes = 16 << 20

// spool collects content before it is sent, so that every attempt sends the same bytes.
type spool struct {
	memory []byte
	file   *os.File
	size   int64
}

// Write implements io.Writer.
func (s *spool) Write(p []byte) (int, error) {
	if s.file == nil && s.size+int64(len(p)) <= spoolBytes {
		s.memory = append(s.memory, p...)
		s.size += int64(len(p))
		return len(p), nil
	}
	if err := s.spill(); err != nil {
		return 0, fmt.Errorf("buffer the content before it is sent: %w", err)
	}
	n, err := s.file.Write(p)
	s.size += int64(n)
	return n, err
}

// spill moves the content to an unlinked file.
func (s *spool) spill() error {
	if s.file != nil {
		return nil
	}
	f, err := os.CreateTemp("", "latentbeam-upload-")
	if err != nil {
		return err
	}
	_ = os.Remove(f.Name())
	s.file = f
	_, err = f.Write(s.memory)
	s.memory = nil
	return err
}

// ReadAt implements io.ReaderAt.
func (s *spool) ReadAt(p []byte, offset int64) (int, error) {
	if s.file != nil {
		return s.file.ReadAt(p, offset)
	}
	return bytes.NewReader(s.memory).ReadAt(p, offset)
}

func (s *spool) drop() {
	if s.file != nil {
		s.file.Close()
	}
}

package fingerprints

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"sync"

	"latentbeam/internal/storage/store"
)

// Look says how thoroughly files are checked.
type Look int

const (
	// LookAtSizes reads no content.
	LookAtSizes Look = iota
	// LookAtMarks reads small files, and files that were written since they were last read.
	LookAtMarks
	// LookAtAll reads everything.
	LookAtAll
)

// Output is the tables, pages and other files of an output, with what is remembered about them.
type Output struct {
	Store   store.Store
	Witness *Witness // may be nil

	damaged map[string]bool // files whose content is not what was written
}

// Damage records that a file is damaged.
func (o *Output) Damage(name string) {
	if o.damaged == nil {
		o.damaged = map[string]bool{}
	}
	o.damaged[name] = true
}

// IsDamaged reports whether a file was recorded as damaged and not replaced since.
func (o *Output) IsDamaged(name string) bool { return o.damaged[name] }

// IsAsWritten compares a file with what is remembered about it. An unknown file becomes known.
func (o *Output) IsAsWritten(ctx context.Context, info store.Info, look Look) (bool, error) {
	known, found := o.Witness.File(info.Name)
	switch {
	case found && known.Bytes != info.Size:
		return false, nil
	case found && look < LookAtAll && known.Mark == info.Mark, !found && look < LookAtMarks:
		return true, nil
	}
	sum, err := Sum(ctx, o.Store, info.Name)
	if err != nil {
		return false, err
	}
	now := FileState{Bytes: info.Size, SHA256: hex.EncodeToString(sum[:]), Mark: info.Mark}
	if found && known.SHA256 != now.SHA256 {
		return false, nil
	}
	o.Witness.SetFile(info.Name, now)
	return true, nil
}

// HasWritten compares the content of a small file with what is remembered about it. An unknown file counts as correct.
func (o *Output) HasWritten(name string, content []byte) bool {
	known, found := o.Witness.File(name)
	sum := sha256.Sum256(content)
	return !found || known.SHA256 == hex.EncodeToString(sum[:])
}

// Replace replaces an object of the output, and remembers its digest.
func (o *Output) Replace(ctx context.Context, name string, write func(io.Writer) error) error {
	h := sha256.New()
	err := o.Store.Replace(ctx, name, func(w io.Writer) error {
		h.Reset()
		return write(io.MultiWriter(w, h))
	})
	if err != nil {
		return err
	}
	delete(o.damaged, name)
	if o.Witness == nil {
		return nil
	}
	info, err := o.Store.Stat(ctx, name)
	if err != nil {
		return err
	}
	o.Witness.SetFile(name, FileState{Bytes: info.Size, SHA256: hex.EncodeToString(h.Sum(nil)), Mark: info.Mark})
	return nil
}

// Sum returns the SHA-256 of an object.
func Sum(ctx context.Context, s store.Store, name string) (sum [sha256.Size]byte, err error) {
	f, err := s.Open(ctx, name)
	if err != nil {
		return sum, err
	}
	defer f.Close()
	h := sha256.New()
	buffer := sumBuffers.Get().(*[sumBytes]byte)
	defer sumBuffers.Put(buffer)
	if _, err := io.CopyBuffer(h, onlyReader{io.NewSectionReader(f, 0, f.Size())}, buffer[:]); err != nil {
		return sum, err
	}
	return [sha256.Size]byte(h.Sum(nil)), ctx.Err()
}

// sumBytes is how much of a file is read at a time; in a bucket each read is a request.
const sumBytes = 1 << 20

var sumBuffers = sync.Pool{New: func() any { return new([sumBytes]byte) }}

// onlyReader hides other methods of a reader, so that CopyBuffer uses its buffer.
type onlyReader struct{ io.Reader }

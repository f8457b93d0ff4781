package fingerprints

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"sync"

	"latentbeam/internal/storage/store"
)

// Look says how closely files are looked at.
type Look int

const (
	// LookAtSizes reads nothing.
	LookAtSizes Look = iota
	// LookAtMarks reads what is small and what was written since it was read last.
	LookAtMarks
	// LookAtAll reads everything.
	LookAtAll
)

// Output is the tables, pages and other files of an output, with what is remembered of them.
type Output struct {
	Store   store.Store
	Witness *Witness // nil remembers nothing

	damaged map[string]bool // files that are not what was written
}

// Damage notes a file as damaged.
func (o *Output) Damage(name string) {
	if o.damaged == nil {
		o.damaged = map[string]bool{}
	}
	o.damaged[name] = true
}

// IsDamaged reports whether a file was noted as damaged and has not been replaced since.
func (o *Output) IsDamaged(name string) bool { return o.damaged[name] }

// IsAsWritten compares a file with what is remembered of it. A file that is not known becomes known.
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

// HasWritten compares the content of a small file with what is remembered of it. One that is not known is taken for
// right.
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

// Sum is the SHA-256 of an object.
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

// sumBytes is how much of a file is read at a time: in a bucket each is a request.
const sumBytes = 1 << 20

var sumBuffers = sync.Pool{New: func() any { return new([sumBytes]byte) }}

// onlyReader hides what else a reader can do, so that CopyBuffer uses its buffer.
type onlyReader struct{ io.Reader }

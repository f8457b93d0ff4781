package report

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"log/slog"
	"maps"
	"regexp"
	"sync"

	"latentbeam/internal/storage/fingerprints"
	"latentbeam/internal/storage/store"
	"latentbeam/schemas"
)

// Files are the files of a report, tables and pages, and their sizes in bytes.
type Files map[string]int64

// files are those of this job that there are.
func (j *Job) files(ctx context.Context) (Files, error) {
	own := regexp.MustCompile(`^` + regexp.QuoteMeta(j.Part) + `(index(-[0-9]+)?\.html|metadata\.parquet)$`)
	out := Files{}
	for _, table := range tableNames {
		infos, err := tableInfos(ctx, j.Store, table)
		if err != nil {
			return nil, err
		}
		for _, info := range infos {
			if j.owns(info.Name) {
				out[info.Name] = info.Size
			}
		}
	}
	for info, err := range j.Store.List(ctx, "", store.Flat) {
		if err != nil {
			return nil, err
		}
		if own.MatchString(info.Name) {
			out[info.Name] = info.Size
		}
	}
	return out, nil
}

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

// AsWritten reports whether all files of a report are there, as they were written. Tables of tensors are large: see
// CheckTensors, which has looked at them.
func (j *Job) AsWritten(ctx context.Context, files Files, look Look) bool {
	sizes := j.Store.Sizes(ctx)
	defer sizes.Close()
	if card, known := j.Witness.File(cardFile); known && look > LookAtSizes { // summaries do not name it
		files = maps.Clone(files)
		if files == nil {
			files = Files{}
		}
		files[cardFile] = card.Bytes
	}
	for name, want := range files {
		info, err := sizes.Of(ctx, name)
		whole := err == nil && info.Size == want && !j.Damaged[name]
		if whole && look > LookAtSizes && !HasTensors(name) {
			whole, err = j.asWitnessed(ctx, info, LookAtAll)
		}
		if err != nil || !whole {
			slog.Warn("a file of the report is not as it was written: the report is written anew", "file", name)
			return false
		}
	}
	return true
}

// CheckTensors finds the files of tensor tables that are not what was written, and notes them as Damaged.
func (j *Job) CheckTensors(ctx context.Context, look Look) error {
	for _, table := range tensorTables {
		infos, err := tableInfos(ctx, j.Store, table)
		if err != nil {
			return err
		}
		for _, info := range infos {
			whole, err := j.asWitnessed(ctx, info, look)
			if err == nil && whole && look == LookAtAll { // it may have been damaged before anybody looked
				var bad []schemas.Key
				bad, err = j.DamagedRows(ctx, info.Name)
				whole = len(bad) == 0
			}
			if err != nil {
				return err
			}
			if !whole {
				j.damage(info.Name)
				slog.Warn("a table is not as it was written: what is lost of it is computed again", "file", info.Name)
			}
		}
	}
	return nil
}

// damage notes a file as damaged.
func (j *Job) damage(name string) {
	if j.Damaged == nil {
		j.Damaged = map[string]bool{}
	}
	j.Damaged[name] = true
}

// DamageAll notes all files of tensor tables as damaged: where one turned out to be, others may be too.
func (j *Job) DamageAll(ctx context.Context) error {
	for _, table := range tensorTables {
		names, err := allFiles(ctx, j.Store, table)
		if err != nil {
			return err
		}
		for _, name := range names {
			j.damage(name)
		}
	}
	return nil
}

// asWitnessed compares a file with what is remembered of it. A file that is not known becomes known.
func (j *Job) asWitnessed(ctx context.Context, info store.Info, look Look) (bool, error) {
	known, found := j.Witness.File(info.Name)
	switch {
	case found && known.Bytes != info.Size:
		return false, nil
	case found && look < LookAtAll && known.Mark == info.Mark, !found && look < LookAtMarks:
		return true, nil
	}
	sum, err := Sum(ctx, j.Store, info.Name)
	if err != nil {
		return false, err
	}
	now := fingerprints.FileState{Bytes: info.Size, SHA256: hex.EncodeToString(sum[:]), Mark: info.Mark}
	if found && known.SHA256 != now.SHA256 {
		return false, nil
	}
	j.Witness.SetFile(info.Name, now)
	return true, nil
}

// IsAsWritten compares the content of a small file with what is remembered of it. One that is not known is taken for
// right.
func (j *Job) IsAsWritten(name string, content []byte) bool {
	known, found := j.Witness.File(name)
	sum := sha256.Sum256(content)
	return !found || known.SHA256 == hex.EncodeToString(sum[:])
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

// Replace replaces an object of the output, and remembers its digest.
func (j *Job) Replace(ctx context.Context, name string, write func(io.Writer) error) error {
	h := sha256.New()
	err := j.Store.Replace(ctx, name, func(w io.Writer) error {
		h.Reset()
		return write(io.MultiWriter(w, h))
	})
	if err != nil {
		return err
	}
	delete(j.Damaged, name)
	if j.Witness == nil {
		return nil
	}
	info, err := j.Store.Stat(ctx, name)
	if err != nil {
		return err
	}
	j.Witness.SetFile(name, fingerprints.FileState{Bytes: info.Size, SHA256: hex.EncodeToString(h.Sum(nil)), Mark: info.Mark})
	return nil
}

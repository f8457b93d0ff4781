package marking

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"log/slog"
	"path"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"latentbeam/internal/media/marks"
	"latentbeam/internal/storage/fingerprints"
	"latentbeam/internal/storage/ledger"
	"latentbeam/internal/storage/source"
	"latentbeam/internal/storage/store"
	"latentbeam/schemas"
	"latentbeam/stages"
)

// Rows whose records are written together, and files that are written at a time.
const (
	changeRows  = 256
	changeFiles = 8
)

// tellEvery is how often a change says how far it is.
const tellEvery = 30 * time.Second

// Changed says what a change of the marks has done.
type Changed struct {
	Marks   []string `json:"marks"`
	Rows    int64    `json:"rows"`    // whose files have other marks now
	Kept    int64    `json:"kept"`    // that had these marks
	Damaged int64    `json:"damaged"` // whose video is missing or not as it was written: it stays as it is
	First   string   `json:"first"`   // of the damaged files
}

// Change gives the files of all done rows the marks of the marker, without encoding, and their records the digests of these files.
// rows are those of the input. Of other rows of the ledger nobody knows how they were made, so manifests say less of them. The record
// of the output is written before the first file, and says until the end that files are changing: Change called again goes on.
// Nobody else may be at work on the output.
func Change(ctx context.Context, s store.Store, l *ledger.Ledger, m *Marker, rows iter.Seq2[*stages.Element, error]) (Changed, error) {
	c := newChange(s, l, m)
	var err error
	if c.witness, err = fingerprints.LoadWitness(ctx, s); err != nil {
		return c.done, err
	}
	m.Record.Changing = true
	if err := m.Record.Write(ctx, s); err != nil {
		return c.done, err
	}
	if err := fingerprints.RemoveRows(ctx, s); err != nil {
		return c.done, err
	}
	if err := c.named(ctx, rows, func(v *schemas.VideoFile) bool { return v.Marks != m.Record.ID() }); err != nil {
		return c.done, err
	}
	if err := c.others(ctx); err != nil {
		return c.done, err
	}
	m.Record.Changing = false
	return c.done, m.Record.Write(ctx, s)
}

// Sign signs the files of rows that were published without a signature: by processes without the key, or because a signature asks a time
// stamp authority. Nobody else may be at work on these rows.
func Sign(ctx context.Context, s store.Store, l *ledger.Ledger, m *Marker, rows iter.Seq2[*stages.Element, error]) (Changed, error) {
	c := newChange(s, l, m)
	err := c.named(ctx, rows, m.Record.LacksSignature)
	return c.done, err
}

// LacksSignature reports whether a video has all marks of the record but the signature.
func (r Record) LacksSignature(v *schemas.VideoFile) bool {
	return r.Asked().C2PA && v.Marks == r.unsigned().ID() && v.UnmarkedSHA256 != "" // else no mark could be put on
}

var errFound = errors.New("found")

// Unsigned reports whether the record wants signatures and a row of the input lacks one.
func (r Record) Unsigned(ctx context.Context, l *ledger.Ledger, rows iter.Seq2[*stages.Element, error]) (bool, error) {
	if !r.Asked().C2PA {
		return false, nil
	}
	err := eachVideo(l, rows, func(_ *stages.Element, result schemas.Result) error {
		if r.LacksSignature(result.Video) {
			return errFound
		}
		return context.Cause(ctx)
	})
	if errors.Is(err, errFound) {
		return true, nil
	}
	return false, err
}

func newChange(s store.Store, l *ledger.Ledger, m *Marker) *change {
	return &change{store: s, ledger: l, marker: m, done: Changed{Marks: m.Record.Marks}, damaged: map[ledger.Key]bool{}, told: time.Now()}
}

// change is one Change under way.
type change struct {
	store   store.Store
	ledger  *ledger.Ledger
	marker  *Marker
	witness *fingerprints.Witness // of the files before; nil: nothing is known
	group   []changing
	damaged map[ledger.Key]bool // rows that keep their marks
	done    Changed
	told    time.Time // when it was told how far the change is
}

// changing is a row whose files are to change.
type changing struct {
	key     ledger.Key
	row     *schemas.PromptRow // nil: the input does not name it
	result  schemas.Result
	damaged string // the file that is not as it was written
	changed bool
}

// named changes the rows of the input whose files are wanted.
func (c *change) named(ctx context.Context, rows iter.Seq2[*stages.Element, error], wanted func(*schemas.VideoFile) bool) error {
	err := eachVideo(c.ledger, rows, func(e *stages.Element, r schemas.Result) error {
		key := ledger.Key(e.Key)
		again := slices.ContainsFunc(c.group, func(g changing) bool { return g.key == key })
		if !wanted(r.Video) || again || c.damaged[key] {
			return nil
		}
		return c.add(ctx, changing{key: key, row: &e.Row, result: r})
	})
	if err != nil {
		return err
	}
	return c.flush(ctx)
}

// eachVideo calls each for the rows of the input that are done and have a video, until it returns an error.
func eachVideo(l *ledger.Ledger, rows iter.Seq2[*stages.Element, error], each func(*stages.Element, schemas.Result) error) error {
	cursor := l.Cursor()
	defer cursor.Close()
	for e, err := range rows {
		if err != nil {
			return err
		}
		if e.Failed != nil {
			continue
		}
		rec, err := cursor.Find(ledger.Key(e.Key))
		if err != nil {
			return err
		}
		if r, ok := videoOf(rec); ok {
			if err := each(e, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// others changes all rows of the ledger that still have other marks.
func (c *change) others(ctx context.Context) error {
	named := c.done.Rows
	err := c.ledger.Each(ctx, func(_ ledger.Ref, rec ledger.Record) error {
		r, ok := videoOf(rec)
		switch {
		case !ok || c.damaged[rec.Key]:
			return nil
		case r.Video.Marks == c.marker.Record.ID():
			c.done.Kept++
			return nil
		}
		return c.add(ctx, changing{key: rec.Key, result: r})
	})
	c.done.Kept -= named
	if err != nil {
		return err
	}
	return c.flush(ctx)
}

// videoOf returns the result of a done row with a video.
func videoOf(rec ledger.Record) (r schemas.Result, ok bool) {
	return r, rec.Status == ledger.Done && json.Unmarshal(rec.Row, &r) == nil && r.Video != nil
}

func (c *change) add(ctx context.Context, row changing) error {
	if c.group = append(c.group, row); len(c.group) < changeRows {
		return nil
	}
	return c.flush(ctx)
}

// flush changes the files of the group, and then the records of the rows whose files were changed.
func (c *change) flush(ctx context.Context) error {
	writing, within := errgroup.WithContext(ctx)
	writing.SetLimit(changeFiles)
	for i := range c.group {
		writing.Go(func() error {
			err := c.files(within, &c.group[i])
			c.group[i].changed = err == nil
			return err
		})
	}
	failed := writing.Wait()
	var records []ledger.Record
	for _, row := range c.group {
		if !row.changed {
			continue
		}
		if row.damaged != "" {
			c.damaged[row.key] = true
			if c.done.Damaged++; c.done.First == "" {
				c.done.First = row.damaged
			}
			continue
		}
		rec, err := c.record(row)
		if err != nil {
			return err
		}
		records = append(records, rec)
	}
	c.group = c.group[:0]
	c.done.Rows += int64(len(records))
	err := c.ledger.Commit(context.WithoutCancel(ctx), records) // their files are changed already
	if now := time.Now(); err == nil && failed == nil && now.Sub(c.told) > tellEvery {
		c.told = now
		slog.Log(ctx, source.LevelNotice, "files get other marks", "rows", c.done.Rows)
	}
	return errors.Join(failed, err)
}

// record is the new record of a row, with the tensors of the old one.
func (c *change) record(row changing) (rec ledger.Record, err error) {
	ref, status, err := c.ledger.Lookup(row.key)
	if err != nil || status != ledger.Done {
		return rec, errors.Join(err, fmt.Errorf("row %v has no record any more", row.key))
	}
	old, err := c.ledger.Read(ref)
	if err != nil {
		return rec, err
	}
	rec = ledger.Record{Key: row.key, Status: ledger.Done}
	for _, b := range old.Blobs {
		data, err := c.ledger.ReadBlob(ref, b.Name)
		if err != nil {
			return rec, err
		}
		rec.Blobs = append(rec.Blobs, ledger.Blob{Name: b.Name, Data: data})
	}
	rec.Row, err = json.Marshal(row.result)
	return rec, err
}

// files gives the video and the poster of a row their new marks. A video whose content is not what its record says stays as it is. That
// of a row whose change was cut off has the new marks already, and its old record.
func (c *change) files(ctx context.Context, row *changing) error {
	v, key := row.result.Video, schemas.Key(row.key)
	video, plain, err := c.plain(ctx, v.Path)
	if err != nil {
		return err
	}
	if video == nil || sumOf(plain) != v.ContentSHA256() {
		row.damaged = v.Path
		return nil
	}
	subject := c.subject(row, video)
	marked, err := c.put(ctx, v.Path, video, plain, subject)
	if err != nil {
		return err
	}
	if v.Poster != "" {
		poster, plain, err := c.plain(ctx, v.Poster)
		if err != nil {
			return err
		}
		if known, _ := c.witness.Row(key); poster == nil || known.Poster != 0 && known.Poster != fingerprints.HashSum(sha256.Sum256(poster)) {
			row.damaged = v.Poster
			return nil
		}
		if poster, err = c.put(ctx, v.Poster, poster, plain, subject); err != nil {
			return err
		}
		v.PosterBytes = int64(len(poster))
	}
	v.UnmarkedSHA256 = v.ContentSHA256()
	v.Bytes, v.SHA256, v.Marks = int64(len(marked)), sumOf(marked), c.marker.Record.ID()
	if v.Marks == "" {
		v.UnmarkedSHA256 = ""
	}
	return nil
}

// subject is what the marks of a row say. Of a row that the input does not name, its file says whether it is composite.
func (c *change) subject(row *changing, video []byte) marks.Subject {
	if row.row != nil {
		return c.marker.subject(schemas.Key(row.key), row.row)
	}
	found, _ := marks.Inspect(video)
	return marks.Subject{ID: schemas.Key(row.key).String(), Composite: slices.ContainsFunc(found, func(f marks.Found) bool {
		return f.Name == marks.IPTC && f.Value == marks.Composite
	})}
}

// plain reads a file, and takes its marks out; nil where it is missing or is no such file.
func (c *change) plain(ctx context.Context, name string) (data, plain []byte, err error) {
	data, err = store.ReadFile(ctx, c.store, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	if plain, err = marks.Strip(data, path.Ext(name)); err != nil {
		return nil, nil, nil //nolint:nilerr // it is damaged, which the caller counts
	}
	return data, plain, nil
}

// put writes a file with its new marks, where it does not have them.
func (c *change) put(ctx context.Context, name string, now, plain []byte, subject marks.Subject) ([]byte, error) {
	marked, err := c.marker.put(plain, path.Ext(name), subject)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", store.Address(c.store.URL(), name), err)
	}
	if bytes.Equal(marked, now) {
		return marked, nil
	}
	return marked, c.store.Replace(ctx, name, func(w io.Writer) error {
		_, err := w.Write(marked)
		return err
	})
}

// sumOf is the SHA-256 of data, in hex.
func sumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

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

const (
	groupRows = 256 // rows whose records are committed together
	maxFiles  = 8   // rows whose files are written concurrently
)

// logEvery is the interval at which a change logs its progress.
const logEvery = 30 * time.Second

// Changed counts what a change of the marks has done.
type Changed struct {
	Marks   []string `json:"marks"`
	Rows    int64    `json:"rows"`    // rows whose files were changed
	Kept    int64    `json:"kept"`    // rows that had these marks before
	Damaged int64    `json:"damaged"` // rows whose video is missing or damaged; their files were not changed
	First   string   `json:"first"`   // name of the first damaged file
}

// Change replaces the marks in the files of all finished rows with those of the marker, without encoding, and updates the digests in
// their ledger records. rows are the rows of the input. Parameters of other rows in the ledger are not known, so their manifests
// contain less. Before the first file, Change records in the output that a change is in progress. If it is interrupted, another
// call resumes it. No other process may use the output.
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
	if err := c.changeInput(ctx, rows, func(v *schemas.VideoFile) bool { return v.Marks != m.Record.ID() }); err != nil {
		return c.done, err
	}
	if err := c.changeRest(ctx); err != nil {
		return c.done, err
	}
	m.Record.Changing = false
	return c.done, m.Record.Write(ctx, s)
}

// Sign signs files that were published without a signature: by processes without the key, or because each signature needs a time
// stamp from an authority. No other process may work on these rows.
func Sign(ctx context.Context, s store.Store, l *ledger.Ledger, m *Marker, rows iter.Seq2[*stages.Element, error]) (Changed, error) {
	c := newChange(s, l, m)
	err := c.changeInput(ctx, rows, m.Record.LacksSignature)
	return c.done, err
}

// LacksSignature reports whether a video has all marks of the record except the signature.
func (r Record) LacksSignature(v *schemas.VideoFile) bool {
	return r.Asked().C2PA && v.Marks == r.unsigned().ID() && v.UnmarkedSHA256 != "" // "": the file can have no marks
}

var errFound = errors.New("found")

// Unsigned reports whether the record requires signatures and a row of the input has none.
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
	return &change{store: s, ledger: l, marker: m, done: Changed{Marks: m.Record.Marks}, damaged: map[ledger.Key]bool{}, logged: time.Now()}
}

// change is a Change in progress.
type change struct {
	store   store.Store
	ledger  *ledger.Ledger
	marker  *Marker
	witness *fingerprints.Witness // fingerprints of the files before the change; nil: not known
	group   []changing
	damaged map[ledger.Key]bool // rows whose files are not changed
	done    Changed
	logged  time.Time // time of the last log message
}

// changing is a row whose files are being changed.
type changing struct {
	key     ledger.Key
	row     *schemas.PromptRow // nil: the input does not have the row
	result  schemas.Result
	damaged string // name of a file that is missing or damaged; "": none
	changed bool
}

// changeInput changes the rows of the input for whose videos wanted returns true.
func (c *change) changeInput(ctx context.Context, rows iter.Seq2[*stages.Element, error], wanted func(*schemas.VideoFile) bool) error {
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

// eachVideo calls each for the finished rows of the input that have a video. It stops at the first error.
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

// changeRest changes all rows of the ledger that do not have the marks yet.
func (c *change) changeRest(ctx context.Context) error {
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

// videoOf returns the result of a record; false: the row is not finished or has no video.
func videoOf(rec ledger.Record) (r schemas.Result, ok bool) {
	return r, rec.Status == ledger.Done && json.Unmarshal(rec.Row, &r) == nil && r.Video != nil
}

// add adds a row to the group, and flushes a full group.
func (c *change) add(ctx context.Context, row changing) error {
	if c.group = append(c.group, row); len(c.group) < groupRows {
		return nil
	}
	return c.flush(ctx)
}

// flush changes the files of the group, and then commits the records of the rows whose files were changed.
func (c *change) flush(ctx context.Context) error {
	writing, within := errgroup.WithContext(ctx)
	writing.SetLimit(maxFiles)
	for i := range c.group {
		writing.Go(func() error {
			err := c.changeFiles(within, &c.group[i])
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
	err := c.ledger.Commit(context.WithoutCancel(ctx), records) // even after a cancel, because the files have changed
	if now := time.Now(); err == nil && failed == nil && now.Sub(c.logged) > logEvery {
		c.logged = now
		slog.Log(ctx, source.LevelNotice, "files get other marks", "rows", c.done.Rows)
	}
	return errors.Join(failed, err)
}

// record returns the new record of a row. It contains the tensors of the old record.
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

// changeFiles changes the marks of a row's video and poster. It does not change a video whose content, without marks, differs from its
// record. If an earlier change was interrupted, a file can have the new marks although its record is still the old one.
func (c *change) changeFiles(ctx context.Context, row *changing) error {
	v, key := row.result.Video, schemas.Key(row.key)
	video, plain, err := c.readUnmarked(ctx, v.Path)
	if err != nil {
		return err
	}
	if video == nil || sumOf(plain) != v.ContentSHA256() {
		row.damaged = v.Path
		return nil
	}
	subject := c.subject(row, video)
	marked, err := c.writeMarked(ctx, v.Path, video, plain, subject)
	if err != nil {
		return err
	}
	if v.Poster != "" {
		poster, plain, err := c.readUnmarked(ctx, v.Poster)
		if err != nil {
			return err
		}
		if known, _ := c.witness.Row(key); poster == nil || known.Poster != 0 && known.Poster != fingerprints.HashSum(sha256.Sum256(poster)) {
			row.damaged = v.Poster
			return nil
		}
		if poster, err = c.writeMarked(ctx, v.Poster, poster, plain, subject); err != nil {
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

// subject returns the facts that the marks of a row contain. If the input does not have the row, its file says whether it is
// composite.
func (c *change) subject(row *changing, video []byte) marks.Subject {
	if row.row != nil {
		return c.marker.subject(schemas.Key(row.key), row.row)
	}
	found, _ := marks.Inspect(video)
	return marks.Subject{ID: schemas.Key(row.key).String(), Composite: slices.ContainsFunc(found, func(f marks.Found) bool {
		return f.Name == marks.IPTC && f.Value == marks.Composite
	})}
}

// readUnmarked reads a file and returns it with and without its marks; nil: it is missing, or not a video or image.
func (c *change) readUnmarked(ctx context.Context, name string) (data, plain []byte, err error) {
	data, err = store.ReadFile(ctx, c.store, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	if plain, err = marks.Strip(data, path.Ext(name)); err != nil {
		return nil, nil, nil //nolint:nilerr // the caller counts it as damaged
	}
	return data, plain, nil
}

// writeMarked replaces a file with one that has the new marks. It writes nothing if the file has them already.
func (c *change) writeMarked(ctx context.Context, name string, now, plain []byte, subject marks.Subject) ([]byte, error) {
	marked, err := c.marker.apply(plain, path.Ext(name), subject)
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

// sumOf returns the SHA-256 of data in hex.
func sumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

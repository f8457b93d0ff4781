package audit

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"latentbeam/internal/results/marking"
	"latentbeam/internal/results/tables"
	"latentbeam/internal/storage/ledger"
	"latentbeam/internal/storage/store"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
)

// Differences lists the differences between the tables of two outputs.
type Differences struct {
	A, B   string
	Tables []TableDiff
	// Marks are the marks of synthetic media in the files of A and B, if they differ. Files are then compared without marks.
	Marks []string `json:",omitempty"`
}

// Equal reports whether both outputs have the same rows with the same results.
func (d *Differences) Equal() bool {
	return !slices.ContainsFunc(d.Tables, func(t TableDiff) bool { return t.OnlyA+t.OnlyB+t.Other > 0 })
}

// TableDiff lists the differences of one table. A row is identified by its id, its sample index, and its number among rows with the
// same two.
type TableDiff struct {
	Table string    `json:"table"`
	Same  int64     `json:"same"`
	Other int64     `json:"other"` // rows in both outputs with different columns
	OnlyA int64     `json:"only_a"`
	OnlyB int64     `json:"only_b"`
	Rows  []RowDiff `json:"rows"` // at most maxFindings
}

// RowDiff lists the differences of one row.
type RowDiff struct {
	ID      string   `json:"id"`
	Sample  int64    `json:"sample_index"`
	In      string   `json:"in"` // "both", "a" or "b"
	Columns []Column `json:"columns,omitempty"`
}

// Column is a column with different values.
type Column struct {
	Name string `json:"name"`
	A    string `json:"a"`
	B    string `json:"b"`
}

// derived lists columns that are not compared, because they follow from others or name the location of a result.
var derived = []string{"key", "video_path", "video_bytes", "poster", "source"}

// Compare compares the tables of two outputs. It compares results by the digests in the tables. It uses about 60 bytes of memory per
// row of a.
func Compare(ctx context.Context, a, b store.Store) (Differences, error) {
	d := Differences{A: a.URL(), B: b.URL()}
	contentA, contentB := asPublished, asPublished
	marksA, _, err := marking.Read(ctx, a)
	if err != nil {
		return d, err
	}
	marksB, _, err := marking.Read(ctx, b)
	if err != nil {
		return d, err
	}
	other := marksA.ID() != marksB.ID()
	if other {
		d.Marks = []string{marksA.Asked().String(), marksB.Asked().String()}
	}
	if other || marksA.TimeStampAuthority != "" { // two time stamps are never equal
		var closeA, closeB func()
		if contentA, closeA, err = withoutMarks(ctx, a); err != nil {
			return d, err
		}
		defer closeA()
		if contentB, closeB, err = withoutMarks(ctx, b); err != nil {
			return d, err
		}
		defer closeB()
	}
	side := func(s store.Store, content contentOf) rowsOfOutput { return rowsOfOutput{s, content} }
	for _, compare := range []func() (TableDiff, error){
		func() (TableDiff, error) {
			return compareTable[schemas.VideoRow](ctx, "videos", side(a, contentA), side(b, contentB))
		},
		func() (TableDiff, error) {
			return compareTable[schemas.LatentRow](ctx, "latents", side(a, asPublished), side(b, asPublished))
		},
		func() (TableDiff, error) {
			return compareTable[schemas.EmbeddingRow](ctx, "embeddings", side(a, asPublished), side(b, asPublished))
		},
		func() (TableDiff, error) {
			return compareTable[schemas.FailureRow](ctx, "failures", side(a, asPublished), side(b, asPublished))
		},
	} {
		t, err := compare()
		if err != nil {
			return d, err
		}
		if t.Same+t.Other+t.OnlyA+t.OnlyB > 0 {
			d.Tables = append(d.Tables, t)
		}
	}
	return d, nil
}

// contentOf sets the digest in the columns of a row by which the row's file is compared.
type contentOf func(columns map[string]any) error

// asPublished leaves the digest as it is, so that files are compared with their marks.
func asPublished(map[string]any) error { return nil }

// withoutMarks returns a contentOf that sets the digest of the file without marks, from the ledger. closeLedger closes the
// ledger.
func withoutMarks(ctx context.Context, s store.Store) (content contentOf, closeLedger func(), err error) {
	l, err := ledger.Open(ctx, s)
	if err != nil {
		return nil, nil, err
	}
	cursor := l.Cursor()
	closeLedger = func() {
		cursor.Close()
		l.Close()
	}
	return func(columns map[string]any) error {
		key, err := schemas.ParseKey(fmt.Sprint(columns["key"]))
		if err != nil {
			return nil //nolint:nilerr // not a row of this program
		}
		rec, err := cursor.Find(ledger.Key(key))
		var r schemas.Result
		if err == nil && rec.Status == ledger.Done && json.Unmarshal(rec.Row, &r) == nil && r.Video != nil &&
			r.Video.SHA256 == columns["video_sha256"] {
			columns["video_sha256"] = r.Video.ContentSHA256()
		}
		return err
	}, closeLedger, nil
}

// rowsOfOutput reads the rows of the tables of an output.
type rowsOfOutput struct {
	store   store.Store
	content contentOf
}

// rowState is what compareTable stores of a row of a.
type rowState struct {
	columns uint64 // digest of the columns
	matched bool   // b has the row
}

// compareTable compares a table of two outputs.
func compareTable[T schemas.Row](ctx context.Context, name string, a, b rowsOfOutput) (TableDiff, error) {
	t := TableDiff{Table: name}
	rows := map[uint64]rowState{}
	if err := eachRow[T](ctx, a, name, func(at uint64, columns map[string]any) {
		rows[at] = rowState{columns: sumOf(columns)}
	}); err != nil {
		return t, err
	}
	others := map[uint64]map[string]any{} // different rows of b, to be shown beside those of a
	err := eachRow[T](ctx, b, name, func(at uint64, columns map[string]any) {
		was, found := rows[at]
		switch {
		case !found:
			t.OnlyB++
			t.add(columns, "b", nil)
			return
		case was.columns == sumOf(columns):
			t.Same++
		default:
			t.Other++
			if len(others) < maxFindings {
				others[at] = columns
			}
		}
		was.matched = true
		rows[at] = was
	})
	if err != nil {
		return t, err
	}
	err = eachRow[T](ctx, a, name, func(at uint64, columns map[string]any) {
		if !rows[at].matched {
			t.OnlyA++
			t.add(columns, "a", nil)
		} else if other := others[at]; other != nil {
			t.add(columns, "both", differing(columns, other))
		}
	})
	return t, err
}

// add adds a row that differs, up to maxFindings.
func (t *TableDiff) add(columns map[string]any, in string, differ []Column) {
	if len(t.Rows) < maxFindings {
		sample, _ := columns["sample_index"].(json.Number)
		n, _ := sample.Int64()
		t.Rows = append(t.Rows, RowDiff{fmt.Sprint(columns["id"]), n, in, differ})
	}
}

// eachRow calls fn for the rows of a table, with a hash that identifies the row and with its columns. Tensors and derived columns are
// left out.
func eachRow[T schemas.Row](ctx context.Context, output rowsOfOutput, name string, fn func(at uint64, columns map[string]any)) error {
	names, err := tables.Files(ctx, output.store, name)
	if err != nil {
		return err
	}
	count := map[uint64]uint32{} // rows so far with the same id and sample index
	for _, file := range names {
		err := tables.EachRow(ctx, output.store, file, func(row T) error {
			columns, err := columnsOf(row)
			if err == nil {
				err = output.content(columns)
			}
			if err != nil {
				return err
			}
			at := hash(fmt.Sprint(columns["id"]), fmt.Sprint(columns["sample_index"]))
			earlier := count[at]
			count[at]++
			if earlier > 0 {
				at = hash(strconv.FormatUint(at, 16), strconv.Itoa(int(earlier)))
			}
			for _, name := range derived {
				delete(columns, name)
			}
			fn(at, columns)
			return nil
		})
		if fault.ExitCode(err) == fault.ExitTryAgain {
			return err
		}
		if err != nil {
			return fault.Usage(err)
		}
	}
	return nil
}

// columnsOf returns the columns of a row by name.
func columnsOf(row any) (map[string]any, error) {
	text, err := json.Marshal(row)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	var columns map[string]any
	return columns, d.Decode(&columns)
}

// sumOf returns a digest of columns.
func sumOf(columns map[string]any) uint64 {
	text, _ := json.Marshal(columns) // sorts them by name
	return hash(string(text))
}

// hash returns the first bytes of a digest of the parts.
func hash(parts ...string) uint64 {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d %s", len(p), p)
	}
	return binary.BigEndian.Uint64(h.Sum(nil))
}

// differing lists the columns in which two rows differ.
func differing(a, b map[string]any) (all []Column) {
	for name, was := range a {
		if is := b[name]; fmt.Sprint(was) != fmt.Sprint(is) {
			all = append(all, Column{name, fmt.Sprint(was), fmt.Sprint(is)})
		}
	}
	slices.SortFunc(all, func(a, b Column) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// FindRow returns the columns of the row with an id and a sample index in the tables of an output; nil: there is none.
func FindRow(ctx context.Context, s store.Store, id string, sample int) (columns map[string]any, err error) {
	columns, err = find(ctx, s, "videos", func(r schemas.VideoRow) bool { return r.ID == id && int(r.SampleIndex) == sample })
	if columns != nil || err != nil {
		return columns, err
	}
	return find(ctx, s, "latents", func(r schemas.LatentRow) bool { return r.ID == id && int(r.SampleIndex) == sample })
}

// errFound ends the reading of a table.
var errFound = errors.New("found")

// find returns the columns of the first row of a table for which is returns true; nil: there is none.
func find[T schemas.Row](ctx context.Context, s store.Store, table string, is func(T) bool) (columns map[string]any, err error) {
	names, err := tables.Files(ctx, s, table)
	for _, file := range names {
		if err == nil {
			err = tables.EachRow(ctx, s, file, func(row T) error {
				if !is(row) {
					return nil
				}
				if columns, err = columnsOf(row); err != nil {
					return err
				}
				return errFound
			})
		}
	}
	if errors.Is(err, errFound) {
		err = nil
	}
	return columns, err
}

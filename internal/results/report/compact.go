package report

import (
	"context"
	"encoding/json"
	"slices"

	"latentbeam/internal/storage/ledger"
	"latentbeam/schemas"
)

// rescueBytes is how much rescue gathers for one commit.
const rescueBytes = 32 << 20

// Compact drops from the ledger what the tables hold too, where that is half of it or more. The caller has
// written the tables, and no other process uses the output.
func (j *Job) Compact(ctx context.Context) error {
	j.Release() // those are the tables before
	defer j.Release()
	rows, tensors, err := j.weigh(ctx, func(ledger.Key, string) (bool, error) { return true, nil })
	if err != nil || tensors == 0 || tensors < rows {
		return err // before the tables are opened
	}
	once, twice, err := j.weigh(ctx, func(key ledger.Key, name string) (bool, error) {
		return j.Holds(ctx, key, name)
	})
	if err != nil || twice < once {
		return err
	}
	return j.Ledger.Compact(ctx, func(r ledger.Record) (keepRecord, keepBlobs bool) {
		for _, b := range r.Blobs {
			if ok, err := j.Holds(ctx, r.Key, b.Name); !ok || err != nil {
				return true, true
			}
		}
		return true, false
	})
}

// weigh adds up the bytes of the tensors that pick takes, and those of everything else in the ledger.
func (j *Job) weigh(ctx context.Context, pick func(ledger.Key, string) (bool, error)) (
	others, picked int64, err error) {
	err = j.Ledger.Each(ctx, func(_ ledger.Ref, r ledger.Record) error {
		others += int64(len(r.Row))
		for _, b := range r.Blobs {
			ok, err := pick(r.Key, b.Name)
			if err != nil {
				return err
			}
			if ok {
				picked += b.Size
			} else {
				others += b.Size
			}
		}
		return nil
	})
	return others, picked, err
}

// rescue puts the tensors of a table's file that is about to go back into the ledger: those of the rows that
// do not stay, where the ledger knows the row and has not got its tensors. A file that cannot be read has
// nothing to be rescued.
func (j *Job) rescue(ctx context.Context, file string, stays func(key uint64) bool) error {
	if !HasTensors(file) {
		return nil
	}
	table := TableOf(file)
	t, err := j.openTensors(ctx, file)
	if away(err) {
		return err
	}
	if err != nil {
		return nil //nolint:nilerr // most files are new
	}
	defer t.Close()
	cursor := j.Ledger.Cursor()
	defer cursor.Close()
	var group []ledger.Record
	var bytes int64
	row := int64(-1)
	for text, err := range t.Keys() {
		if away(err) {
			return err
		}
		key, keyErr := schemas.ParseKey(text)
		if err != nil || keyErr != nil {
			break
		}
		if row++; stays(fingerprint(key)) {
			continue
		}
		rec, err := cursor.Find(ledger.Key(key))
		if err != nil {
			return err
		}
		if rec.Status != ledger.Done {
			continue
		}
		var readErr error
		if j.Damaged[file] { // also tensors that have no digest
			if ok, err := j.sound(cursor, t, table, key, row, true); err != nil || !ok {
				if err != nil {
					return err
				}
				continue
			}
			if rec, err = cursor.Find(ledger.Key(key)); err != nil {
				return err
			}
		}
		added := complete(&rec, cursor, table, func(column string) (data []byte, err error) {
			data, readErr = t.Read(column, row)
			return data, readErr
		})
		if away(readErr) {
			return readErr
		}
		if !added {
			continue
		}
		group = append(group, rec)
		for _, b := range rec.Blobs {
			bytes += int64(len(b.Data))
		}
		if bytes >= rescueBytes {
			if err := j.Ledger.Commit(ctx, group); err != nil {
				return err
			}
			group, bytes = nil, 0
		}
	}
	return j.Ledger.Commit(ctx, group)
}

// complete gives the record all its tensors: those it has, and those of one table, which read gets. It
// reports false where the record has them already, or the table's are damaged.
func complete(rec *ledger.Record, cursor *ledger.Cursor, table string,
	read func(column string) ([]byte, error)) bool {
	var result schemas.Result
	if json.Unmarshal(rec.Row, &result) != nil {
		return false
	}
	var added []ledger.Blob
	for _, name := range tensorNames(result) {
		if homes[name].table != table || has(*rec, name) {
			continue
		}
		data, err := read(homes[name].column)
		data = widened(data, name, result)
		if err != nil || !matches(data, name, result) {
			return false
		}
		added = append(added, ledger.Blob{Name: name, Data: data})
	}
	if len(added) == 0 {
		return false
	}
	rec.Row = slices.Clone(rec.Row)
	for i := range rec.Blobs {
		data, err := cursor.Blob(rec.Blobs[i].Name)
		if err != nil {
			return false
		}
		rec.Blobs[i].Data = data
	}
	rec.Blobs = append(rec.Blobs, added...)
	return true
}

// tensorNames lists the tensors that a result has.
func tensorNames(r schemas.Result) []string {
	var out []string
	if len(r.TextShape) > 0 {
		out = append(out, schemas.BlobText)
	}
	if len(r.NegativeTextShape) > 0 {
		out = append(out, schemas.BlobNegativeText)
	}
	if len(r.LaterTexts) > 0 {
		out = append(out, schemas.BlobLaterText)
	}
	if len(r.LatentsShape) > 0 {
		out = append(out, schemas.BlobLatents)
	}
	return out
}

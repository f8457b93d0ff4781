package tensors

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"

	"latentbeam/internal/results/tables"
	"latentbeam/internal/storage/ledger"
	"latentbeam/internal/table/typed"
	"latentbeam/schemas"
)

// IsFlushed reports whether a file of a table exists with its recorded size, is not marked as damaged, and has the metadata entry key
// with the given value.
func (h *Home) IsFlushed(ctx context.Context, name, key, value string) bool {
	if h.Output.IsDamaged(name) {
		return false
	}
	f, err := h.Output.Store.Open(ctx, name)
	if err != nil {
		return false
	}
	defer f.Close()
	if size, known := h.KnownSizes[name]; known && size != f.Size() {
		return false
	}
	metadata, err := typed.Metadata(name, f)
	return err == nil && metadata[key] == value
}

// Flush replaces a file of a table. write must call wrote for each row that it writes. Before the old file is removed, Flush
// writes tensors that only this file has back to the log.
func (h *Home) Flush(ctx context.Context, name string, write func(w io.Writer, wrote func(schemas.Key)) error) error {
	return h.Output.Replace(ctx, name, func(w io.Writer) error {
		var written []uint64
		if err := write(w, func(key schemas.Key) { written = append(written, fingerprint(key)) }); err != nil {
			return err
		}
		slices.Sort(written)
		return h.rescue(ctx, name, written)
	})
}

// Remove removes files of an output. Before that, it writes tensors that no other file of their table has back to the log.
func (h *Home) Remove(ctx context.Context, names ...string) error {
	stay := map[string][]uint64{} // sorted fingerprints of the keys in files that stay, by table
	for _, name := range names {
		if tables.HasTensors(name) {
			table := tables.Of(name)
			if _, known := stay[table]; !known {
				keys, err := h.keysWithout(ctx, table, names)
				if err != nil {
					return err
				}
				stay[table] = keys
			}
			if err := h.rescue(ctx, name, stay[table]); err != nil {
				return err
			}
		}
		if err := h.Output.Store.Remove(ctx, name); err != nil && !errors.Is(err, fs.ErrNotExist) { // another shard may have removed it
			return err
		}
	}
	return nil
}

// keysWithout returns the sorted fingerprints of the keys in the undamaged files of a table, without the files names.
func (h *Home) keysWithout(ctx context.Context, table string, names []string) (keys []uint64, err error) {
	files, err := tables.All(ctx, h.Output.Store, table)
	if err != nil {
		return nil, err
	}
	for _, name := range files {
		if slices.Contains(names, name) || h.Output.IsDamaged(name) {
			continue
		}
		_, err := h.eachRow(ctx, name, func(_ file, key schemas.Key, _ int64) error {
			keys = append(keys, fingerprint(key))
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(keys)
	return keys, nil
}

// rescueBytes is the size of tensors that rescue gathers for one commit.
const rescueBytes = 32 << 20

// rescue writes tensors of a file back to the log, before the file is removed. It writes the tensors of rows whose keys are not in stay
// if the ledger has a record of the row without them. It ignores a file that cannot be read.
func (h *Home) rescue(ctx context.Context, name string, stay []uint64) error {
	cursor := h.Ledger.Cursor()
	defer cursor.Close()
	var group []ledger.Record
	var bytes int64
	_, err := h.eachRow(ctx, name, func(f file, key schemas.Key, row int64) error {
		if _, stays := slices.BinarySearch(stay, fingerprint(key)); stays {
			return nil
		}
		rec, err := cursor.Find(ledger.Key(key))
		if err != nil {
			return err
		}
		added, err := f.complete(&rec, cursor, row)
		if !added || err != nil {
			return err
		}
		group = append(group, rec)
		for _, b := range rec.Blobs {
			bytes += int64(len(b.Data))
		}
		if bytes < rescueBytes {
			return nil
		}
		err = h.Ledger.Commit(ctx, group)
		group, bytes = nil, 0
		return err
	})
	if err != nil {
		return err
	}
	return h.Ledger.Commit(ctx, group)
}

// complete adds the tensors of a row of the file to a record, at which the cursor is positioned, and loads the tensors that the record
// has. It reports false if the record has all tensors already, or if the file's tensors are damaged.
func (f file) complete(rec *ledger.Record, cursor *ledger.Cursor, row int64) (bool, error) {
	result, ok := resultOf(*rec)
	if !ok {
		return false, nil
	}
	var added []ledger.Blob
	for _, name := range namesOf(result) {
		if columns[name].table != tables.Of(f.name) || inLog(*rec, name) {
			continue
		}
		data, sound, err := f.readSound(name, row, result)
		if !sound || err != nil {
			return false, err
		}
		added = append(added, ledger.Blob{Name: name, Data: data})
	}
	if len(added) == 0 {
		return false, nil
	}
	rec.Row = slices.Clone(rec.Row)
	for i := range rec.Blobs {
		data, err := cursor.Blob(rec.Blobs[i].Name)
		if err != nil {
			return false, nil //nolint:nilerr // the ledger has lost the tensor, and reports the damage itself
		}
		rec.Blobs[i].Data = data
	}
	rec.Blobs = append(rec.Blobs, added...)
	return true, nil
}

// TruncateLog removes tensors from the log that the tables hold too, if they are at least half of the log. The tables must be written,
// and no other process may use the output.
func (h *Home) TruncateLog(ctx context.Context) error {
	h.Close() // the tables have changed since they were opened
	defer h.Close()
	inTable := func(key ledger.Key, name string) (bool, error) { return h.inTable(ctx, key, name) }
	for _, pick := range []func(ledger.Key, string) (bool, error){
		func(ledger.Key, string) (bool, error) { return true, nil }, // cheap check, before the tables are opened
		inTable,
	} {
		rows, tensors, err := h.sumBytes(ctx, pick)
		if err != nil || tensors == 0 || tensors < rows {
			return err
		}
	}
	return h.Ledger.Compact(ctx, func(r ledger.Record) (keepRecord, keepBlobs bool) {
		for _, b := range r.Blobs {
			if ok, err := inTable(r.Key, b.Name); !ok || err != nil {
				return true, true
			}
		}
		return true, false
	})
}

// sumBytes returns the size of the tensors for which pick returns true, and the size of everything else in the ledger.
func (h *Home) sumBytes(ctx context.Context, pick func(ledger.Key, string) (bool, error)) (others, picked int64, err error) {
	err = h.Ledger.Each(ctx, func(_ ledger.Ref, r ledger.Record) error {
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

package tensors

import (
	"cmp"
	"context"
	"encoding/binary"
	"slices"

	"latentbeam/internal/results/tables"
	"latentbeam/internal/storage/ledger"
	"latentbeam/internal/storage/store"
	"latentbeam/internal/table/typed"
	"latentbeam/schemas"
)

// index finds the tensors of a key in the files of one table. It uses 16 bytes of memory per row.
type index struct {
	files  []file
	places []place // sorted by key
}

// place is the location of the tensors of a key. It has only the first eight bytes of the key; a reader checks the tensor
// by its digest.
type place struct {
	key  uint64
	file uint32
	row  uint32
}

// maxPlaces limits the memory that is allocated by the row counts in files, which may be damaged.
const maxPlaces = 1 << 24

// fingerprint returns the first eight bytes of a key.
func fingerprint(k [32]byte) uint64 { return binary.BigEndian.Uint64(k[:]) }

// find returns the place of a key.
func (x *index) find(key [32]byte) (place, bool) {
	i, ok := slices.BinarySearchFunc(x.places, fingerprint(key), func(p place, k uint64) int { return cmp.Compare(p.key, k) })
	if !ok {
		return place{}, false
	}
	return x.places[i], true
}

func (x *index) close() {
	for _, f := range x.files {
		_ = f.table.Close() // the file was only read
	}
}

// openIndex reads the keys of all files of a table, including those of other shards. Of a damaged file, it includes only the
// rows whose tensors match their digests.
func (h *Home) openIndex(ctx context.Context, table string) (*index, error) {
	x := &index{}
	err := h.fill(ctx, x, table)
	if err != nil {
		x.close()
		return nil, err
	}
	slices.SortFunc(x.places, func(a, b place) int { return cmp.Compare(a.key, b.key) })
	return x, nil
}

// fill opens the files of a table and adds their rows.
func (h *Home) fill(ctx context.Context, x *index, table string) error {
	names, err := tables.All(ctx, h.Output.Store, table)
	if err != nil {
		return err
	}
	n := int64(0)
	for _, name := range names {
		f, readable, err := h.openFile(ctx, name)
		if err != nil {
			return err
		}
		if readable {
			x.files = append(x.files, f)
			n += f.table.Rows()
		}
	}
	x.places = make([]place, 0, min(n, maxPlaces))
	cursor := h.Ledger.Cursor()
	defer cursor.Close()
	for i, f := range x.files {
		_, err := f.rows(func(key schemas.Key, row int64) error {
			sound := !f.damaged
			if f.damaged {
				var err error
				if sound, err = f.sound(cursor, key, row); err != nil {
					return err
				}
			}
			if sound {
				x.places = append(x.places, place{fingerprint(key), uint32(i), uint32(row)})
			}
			return nil
		})
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// file is an open file of a table.
type file struct {
	name    string // name in the output
	table   *typed.Tensors
	damaged bool // the file has changed since it was written
}

// openFile opens a file of a table. readable is false if it is not a valid table; it then has no rows. An error means that
// the store cannot answer now.
func (h *Home) openFile(ctx context.Context, name string) (f file, readable bool, err error) {
	f = file{name: name, damaged: h.Output.IsDamaged(name)}
	r, err := h.Output.Store.Open(ctx, name)
	if err == nil {
		f.table, err = typed.OpenTensors(store.Address(h.Output.Store.URL(), name), r)
	}
	if unavailable(err) {
		return f, false, err
	}
	return f, err == nil, nil
}

// rows calls fn with the key of each row in order, until the file cannot be read; whole reports whether it was read to its end. In a
// damaged file, rows skips a row with an invalid key. In any other file, it stops there.
func (f file) rows(fn func(key schemas.Key, row int64) error) (whole bool, err error) {
	row := int64(-1)
	for text, err := range f.table.Keys() {
		row++
		if unavailable(err) {
			return false, err
		}
		key, keyErr := schemas.ParseKey(text)
		if err == nil && keyErr != nil && f.damaged {
			continue
		}
		if err != nil || keyErr != nil {
			return false, nil //nolint:nilerr // the file is damaged
		}
		if err := fn(key, row); err != nil {
			return false, err
		}
	}
	return true, nil
}

// eachRow opens a file, calls rows, and closes the file.
func (h *Home) eachRow(ctx context.Context, name string, fn func(f file, key schemas.Key, row int64) error) (whole bool, err error) {
	f, readable, err := h.openFile(ctx, name)
	if !readable || err != nil {
		return false, err
	}
	defer f.table.Close()
	return f.rows(func(key schemas.Key, row int64) error { return fn(f, key, row) })
}

// read reads a tensor as float32, the form in which the log stores it. A table of latents may store bfloat16.
func (f file) read(name string, row int64, r schemas.Result) ([]byte, error) {
	data, err := f.table.Read(columns[name].name, row)
	if n := 2 * product(r.LatentsShape); name == schemas.BlobLatents && n > 0 && len(data) == n {
		return schemas.WidenBF16(data), err
	}
	return data, err
}

// readSound reads a tensor and checks its digest; sound is false if it is damaged. In a damaged file, a tensor without a digest
// counts as damaged.
func (f file) readSound(name string, row int64, r schemas.Result) (data []byte, sound bool, err error) {
	data, err = f.read(name, row, r)
	if unavailable(err) {
		return nil, false, err
	}
	return data, err == nil && (!f.damaged || digestOf(name, r) != "") && matches(data, name, r), nil
}

// sound reports whether all tensors of a row can be read and match the digests of its ledger record. A row without a record is
// sound if the file is not marked as damaged, because it is computed again anyway.
func (f file) sound(cursor *ledger.Cursor, key schemas.Key, row int64) (bool, error) {
	rec, err := cursor.Find(ledger.Key(key))
	if err != nil || rec.Status != ledger.Done {
		return !f.damaged && rec.Status == ledger.Absent, err
	}
	r, ok := resultOf(rec)
	if !ok {
		return !f.damaged, nil
	}
	for _, name := range namesOf(r) {
		if columns[name].table != tables.Of(f.name) {
			continue
		}
		if _, sound, err := f.readSound(name, row, r); !sound || err != nil {
			return false, err
		}
	}
	return true, nil
}

func product(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

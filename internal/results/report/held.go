package report

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"latentbeam/internal/storage/ledger"
	"latentbeam/internal/storage/store"
	"latentbeam/internal/table/typed"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
)

// A tensor is in the ledger until the tables of a complete run are on disk; then Compact drops it from the
// ledger, for one copy is enough. A later run that writes a file of a table anew takes the tensor from the old files
// and holds them open meanwhile. Before a file goes, tensors that only this file has go back into the ledger
// (rescue). So at every moment a tensor is in one place at least, wherever a run is killed; and where somebody has
// removed a table, its rows are found in no place and are computed again (Holds).

// home is where the tables have a tensor that ledger records call by a name.
type home struct{ table, column string }

var homes = map[string]home{
	schemas.BlobText:         {"embeddings", "text_embedding_bytes"},
	schemas.BlobNegativeText: {"embeddings", "negative_embedding_bytes"},
	schemas.BlobLaterText:    {"embeddings", "later_embedding_bytes"},
	schemas.BlobLatents:      {"latents", "vae_latent_bytes"},
}

// held says where the files of one table have the tensors of which key. It takes 16 bytes a row.
type held struct {
	files  []*typed.Tensors
	names  []string   // of files
	places []rowPlace // sorted by key
}

// rowPlace is where the tensors of a key are. Eight bytes of the key find it; what is found is checked by the
// digest of its content.
type rowPlace struct {
	key  uint64
	file uint32
	row  uint32
}

// maxPlaces bounds what is allocated because files say so.
const maxPlaces = 1 << 24

func fingerprint(k [32]byte) uint64 { return binary.BigEndian.Uint64(k[:]) }

// away reports whether an error says nothing about what was read: the store cannot answer now.
func away(err error) bool {
	return fault.ExitCode(err) == fault.ExitTryAgain || errors.Is(err, context.Canceled) ||
		errors.Is(err, context.DeadlineExceeded)
}

// openHeld reads the keys of all files of a table, those of other shards too. A file that is damaged
// holds nothing.
func (j *Job) openHeld(ctx context.Context, name string) (*held, error) {
	files, err := allFiles(ctx, j.Store, name)
	if err != nil {
		return nil, err
	}
	h := &held{}
	n := int64(0)
	for _, file := range files {
		t, err := j.openTensors(ctx, file)
		if away(err) {
			h.close()
			return nil, err
		}
		if err == nil {
			h.files, h.names = append(h.files, t), append(h.names, file)
			n += t.Rows()
		}
	}
	h.places = make([]rowPlace, 0, min(n, maxPlaces))
	for i := range h.files {
		if err := j.openPlaces(ctx, name, h, i); err != nil {
			h.close()
			return nil, err
		}
	}
	slices.SortFunc(h.places, func(a, b rowPlace) int { return cmp.Compare(a.key, b.key) })
	return h, nil
}

// openPlaces notes the rows of file number i. Of a damaged one those count whose tensors are right; where the file cannot
// be read any more, those before.
func (j *Job) openPlaces(ctx context.Context, name string, h *held, i int) error {
	t := h.files[i]
	sound := func(schemas.Key, int64) (bool, error) { return true, nil }
	if j.Damaged[h.names[i]] {
		cursor := j.Ledger.Cursor()
		defer cursor.Close()
		sound = func(key schemas.Key, row int64) (bool, error) { return j.sound(cursor, t, name, key, row, true) }
	}
	row := int64(0)
	for text, err := range t.Keys() {
		if away(err) {
			return err
		}
		key, keyErr := schemas.ParseKey(text)
		if err == nil && keyErr != nil && j.Damaged[h.names[i]] {
			row++
			continue
		}
		if err != nil || keyErr != nil {
			return nil //nolint:nilerr // the file is damaged
		}
		ok, err := sound(key, row)
		if err != nil {
			return err
		}
		if ok {
			h.places = append(h.places, rowPlace{fingerprint(key), uint32(i), uint32(row)})
		}
		row++
	}
	return ctx.Err()
}

// maxDamagedRows bounds the rows that DamagedRows names.
const maxDamagedRows = 1000

// DamagedRows reads all tensors of a table's file and returns the keys of those that are not what the ledger says, at
// most maxDamagedRows. A file that cannot be read has the zero key.
func (j *Job) DamagedRows(ctx context.Context, file string) (bad []schemas.Key, err error) {
	t, err := j.openTensors(ctx, file)
	if away(err) {
		return nil, err
	}
	if err != nil {
		return []schemas.Key{{}}, nil //nolint:nilerr // it is damaged
	}
	defer t.Close()
	cursor := j.Ledger.Cursor()
	defer cursor.Close()
	row := int64(0)
	for text, err := range t.Keys() {
		if away(err) || ctx.Err() != nil {
			return bad, errors.Join(err, ctx.Err())
		}
		key, keyErr := schemas.ParseKey(text)
		if err != nil || keyErr != nil {
			return append(bad, schemas.Key{}), nil //nolint:nilerr // it is damaged
		}
		ok, err := j.sound(cursor, t, TableOf(file), key, row, false)
		if err != nil {
			return bad, err
		}
		if !ok && len(bad) < maxDamagedRows {
			bad = append(bad, key)
		}
		row++
	}
	return bad, nil
}

// sound reports whether the tensors in a row of a table can be read and are those of its ledger record. One without a digest
// is taken as it is, unless the file is known to be damaged; so is a row that the ledger does not know.
func (j *Job) sound(cursor *ledger.Cursor, t *typed.Tensors, name string, key schemas.Key, row int64, damaged bool) (bool, error) {
	rec, err := cursor.Find(ledger.Key(key))
	if err != nil || rec.Status != ledger.Done {
		return !damaged && rec.Status == ledger.Absent, err // what is not in the ledger is computed again anyway
	}
	var r schemas.Result
	if json.Unmarshal(rec.Row, &r) != nil {
		return !damaged, nil
	}
	for _, tensor := range tensorNames(r) {
		if homes[tensor].table != name {
			continue
		}
		data, err := t.Read(homes[tensor].column, row)
		data = widened(data, tensor, r)
		if away(err) {
			return false, err
		}
		if err != nil || damaged && digestOf(tensor, r) == "" || !matches(data, tensor, r) {
			return false, nil
		}
	}
	return true, nil
}

func (j *Job) openTensors(ctx context.Context, name string) (*typed.Tensors, error) {
	file, err := j.Store.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	return typed.OpenTensors(store.Address(j.Store.URL(), name), file)
}

// find returns the place of a key.
func (h *held) find(key [32]byte) (rowPlace, bool) {
	i, ok := slices.BinarySearchFunc(h.places, fingerprint(key), func(p rowPlace, k uint64) int {
		return cmp.Compare(p.key, k)
	})
	if !ok {
		return rowPlace{}, false
	}
	return h.places[i], true
}

func (h *held) close() {
	for _, f := range h.files {
		_ = f.Close() // it was only read
	}
}

// Holds reports whether the tables of the output have the tensor that a ledger record calls name. The first
// call opens them, as they are then.
func (j *Job) Holds(ctx context.Context, key ledger.Key, name string) (bool, error) {
	h, err := j.heldBy(ctx, homes[name].table)
	if err != nil {
		return false, err
	}
	_, ok := h.find(key)
	return ok, nil
}

func (j *Job) heldBy(ctx context.Context, table string) (*held, error) {
	if h := j.held[table]; h != nil {
		return h, nil
	}
	h, err := j.openHeld(ctx, table)
	if err != nil {
		return nil, err
	}
	if j.held == nil {
		j.held = map[string]*held{}
	}
	j.held[table] = h
	return h, nil
}

// Release closes the tables that Holds has opened.
func (j *Job) Release() {
	for _, h := range j.held {
		h.close()
	}
	j.held = nil
}

// blob reads a tensor of the row from the ledger, or from the tables of an earlier run.
func (j *Job) blob(ctx context.Context, o outcome, name string) ([]byte, error) {
	if has(o.record, name) {
		return o.cursor.Blob(name)
	}
	h, err := j.heldBy(ctx, homes[name].table)
	if err != nil {
		return nil, err
	}
	p, ok := h.find(o.Key)
	if !ok {
		return nil, fmt.Errorf("the %s of %s is neither in the ledger nor in a table: run again, and it is "+
			"computed anew", name, o.Key)
	}
	file := h.files[p.file]
	data, err := file.Read(homes[name].column, int64(p.row))
	data = widened(data, name, o.result)
	if errors.Is(err, store.ErrChanged) {
		return rescued(o, name, err)
	}
	if away(err) {
		return nil, err
	}
	if err == nil && !matches(data, name, o.result) {
		err = fmt.Errorf("table %s: the %s of row %d is not what was written there", file.Path(), name, p.row+1)
	}
	if err != nil {
		return nil, fault.Fatal(&DamagedTableError{h.names[p.file], err})
	}
	return data, nil
}

// DamagedTableError says that a file of a tensor table turned out to be damaged while the tables were written.
type DamagedTableError struct {
	File string // within the output
	Err  error
}

// Error names the file and what to do.
func (e *DamagedTableError) Error() string {
	return fmt.Sprintf("%s is damaged (%v); run again, what is lost is computed anew", e.File, e.Err)
}

// Unwrap returns what was found.
func (e *DamagedTableError) Unwrap() error { return e.Err }

// rescued reads from the ledger a tensor whose table was replaced since the row was read: rescue has put it there. err
// says that the table was.
func rescued(o outcome, name string, err error) ([]byte, error) {
	now, findErr := o.cursor.Find(ledger.Key(o.Key))
	if findErr != nil || !has(now, name) {
		return nil, errors.Join(err, findErr)
	}
	return o.cursor.Blob(name)
}

// has reports whether the record carries the tensor itself.
func has(r ledger.Record, name string) bool {
	return slices.ContainsFunc(r.Blobs, func(b ledger.Blob) bool { return b.Name == name })
}

// digestOf is the digest of a tensor, "" where the result has none.
func digestOf(name string, r schemas.Result) string {
	return map[string]string{schemas.BlobText: r.TextSHA256, schemas.BlobLatents: r.LatentsSHA256}[name]
}

// widened is a tensor of a table as the ledger has it: float32. A table of latents may have bfloat16, half the bytes.
func widened(data []byte, name string, r schemas.Result) []byte {
	if n := 2 * product(r.LatentsShape); name == schemas.BlobLatents && n > 0 && len(data) == n {
		return schemas.WidenBF16(data)
	}
	return data
}

// matches compares a tensor with its digest, where the result has one.
func matches(data []byte, name string, r schemas.Result) bool {
	want := digestOf(name, r)
	sum := sha256.Sum256(data)
	return want == "" || want == hex.EncodeToString(sum[:])
}

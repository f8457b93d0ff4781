package report

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"latentbeam/internal/ledger"
	"latentbeam/internal/store"
	"latentbeam/internal/table"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
)

// A tensor is in the ledger until the tables of a complete run are on disk; then Compact drops it from the
// ledger, for one copy is enough. A later run that writes a file of a table anew takes it from the old
// files, which it holds open meanwhile, and before a file goes, what only that file has goes back into the
// ledger (rescue). So at every moment a tensor is in one place at least, wherever a run is killed; and where
// somebody has removed a table, its rows are found in no place and are computed again (Holds).

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
	files  []*table.Tensors
	places []place // sorted by key
}

// place is where the tensors of a key are. Eight bytes of the key find it; what is found is checked by the
// digest of its content.
type place struct {
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
	files, err := store.Names(ctx, j.Store, "tables/"+name+"-", store.Flat)
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
			h.files = append(h.files, t)
			n += t.Rows()
		}
	}
	h.places = make([]place, 0, min(n, maxPlaces))
	for i, t := range h.files {
		row := uint32(0)
		for text, err := range t.Keys() {
			if away(err) {
				h.close()
				return nil, err
			}
			key, keyErr := schemas.ParseKey(text)
			if err != nil || keyErr != nil {
				break
			}
			h.places = append(h.places, place{fingerprint(key), uint32(i), row})
			row++
		}
	}
	slices.SortFunc(h.places, func(a, b place) int { return cmp.Compare(a.key, b.key) })
	return h, nil
}

func (j *Job) openTensors(ctx context.Context, name string) (*table.Tensors, error) {
	file, err := j.Store.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	return table.OpenTensors(store.Address(j.Store.URL(), name), file)
}

// find returns the place of a key.
func (h *held) find(key [32]byte) (place, bool) {
	i, ok := slices.BinarySearchFunc(h.places, fingerprint(key), func(p place, k uint64) int {
		return cmp.Compare(p.key, k)
	})
	if !ok {
		return place{}, false
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
		return nil, fmt.Errorf("%w: remove the file and run again, its rows are computed anew", err)
	}
	return data, nil
}

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

// matches compares a tensor with its digest, where the result has one.
func matches(data []byte, name string, r schemas.Result) bool {
	want := map[string]string{schemas.BlobText: r.TextSHA256, schemas.BlobLatents: r.LatentsSHA256}[name]
	sum := sha256.Sum256(data)
	return want == "" || want == hex.EncodeToString(sum[:])
}

// Package tensors is the home of an output's tensors: a write-ahead log and the tables that it is flushed to.
//
// Put makes a tensor a blob of a ledger record: the ledger is the log, and knows blobs as bytes alone. Flush writes a
// file of a table. Once the tables of a complete run are on disk, TruncateLog drops from the log what they hold, for one
// copy is enough. Get and Has look in both. A later run that writes a file of a table anew takes the tensor from the old
// files and holds them open meanwhile. Before a file goes, tensors that only this file has go back into the log. So at
// every moment a tensor is in one place at least, wherever a run is killed; and where somebody has removed a table, its
// rows are found in no place and are computed again.
package tensors

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"latentbeam/internal/storage/fingerprints"
	"latentbeam/internal/storage/ledger"
	"latentbeam/internal/storage/store"
	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// Home is the home of the tensors of one output. It is for one goroutine.
type Home struct {
	Output *fingerprints.Output
	Ledger *ledger.Ledger
	// Before are the sizes of the files that the run before left; what is another size now is written anew.
	Before map[string]int64

	open map[string]*index // the tables as they were when a tensor was first asked for, by name
}

// column is where the tables have a tensor.
type column struct {
	table, name string
	kind        stages.Kind
}

// columns are those of the tensors, by their names in the log.
var columns = map[string]column{
	schemas.BlobText:         {"embeddings", "text_embedding_bytes", stages.KindText},
	schemas.BlobNegativeText: {"embeddings", "negative_embedding_bytes", stages.KindText},
	schemas.BlobLaterText:    {"embeddings", "later_embedding_bytes", stages.KindText},
	schemas.BlobLatents:      {"latents", "vae_latent_bytes", stages.KindLatents},
}

// Put adds a tensor to a record that is to be committed and returns the SHA-256 of its bytes.
func Put(r *ledger.Record, name string, a *stages.Array) string {
	data := kernels.F32.Bytes(a.Data)
	r.Blobs = append(r.Blobs, ledger.Blob{Name: name, Data: data})
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Has reports whether a record's tensors of these kinds are there, in the log or in a table; result is that of the record.
// The first call that the log cannot answer opens the tables, as they are then.
func (h *Home) Has(ctx context.Context, rec ledger.Record, result schemas.Result, kinds map[stages.Kind]bool) (bool, error) {
	if kinds[stages.KindText] && len(result.TextShape) == 0 || kinds[stages.KindLatents] && len(result.LatentsShape) == 0 {
		return false, nil // the run that made it kept less
	}
	for _, name := range namesOf(result) {
		if !kinds[columns[name].kind] || inLog(rec, name) {
			continue
		}
		if held, err := h.holds(ctx, rec.Key, name); !held || err != nil {
			return false, err
		}
	}
	return true, nil
}

// Get reads a tensor of the record at which the cursor stands. DamagedTableError says that its table is damaged.
func (h *Home) Get(ctx context.Context, cursor *ledger.Cursor, rec ledger.Record, result schemas.Result, name string) ([]byte, error) {
	if inLog(rec, name) {
		return cursor.Blob(name)
	}
	x, err := h.indexOf(ctx, columns[name].table)
	if err != nil {
		return nil, err
	}
	p, ok := x.find(rec.Key)
	if !ok {
		return nil, fmt.Errorf("the %s of %s is neither in the ledger nor in a table: run again, and it is "+
			"computed anew", name, rec.Key)
	}
	f := x.files[p.file]
	data, err := f.read(name, int64(p.row), result)
	switch {
	case errors.Is(err, store.ErrChanged): // since the row was read: its tensors went to the log before
		now, findErr := cursor.Find(rec.Key)
		if findErr != nil || !inLog(now, name) {
			return nil, errors.Join(err, findErr)
		}
		return cursor.Blob(name)
	case away(err):
		return nil, err
	case err == nil && !matches(data, name, result):
		err = fmt.Errorf("table %s: the %s of row %d is not what was written there", f.table.Path(), name, p.row+1)
	}
	if err != nil {
		return nil, fault.Fatal(&DamagedTableError{f.name, err})
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

// away reports whether an error says nothing about what was read: the store cannot answer now.
func away(err error) bool {
	return fault.ExitCode(err) == fault.ExitTryAgain || errors.Is(err, context.Canceled) ||
		errors.Is(err, context.DeadlineExceeded)
}

// inLog reports whether the record carries the tensor itself.
func inLog(r ledger.Record, name string) bool {
	return slices.ContainsFunc(r.Blobs, func(b ledger.Blob) bool { return b.Name == name })
}

// namesOf lists the tensors that a result has.
func namesOf(r schemas.Result) (names []string) {
	for _, one := range []struct {
		name string
		has  bool
	}{
		{schemas.BlobText, len(r.TextShape) > 0}, {schemas.BlobNegativeText, len(r.NegativeTextShape) > 0},
		{schemas.BlobLaterText, len(r.LaterTexts) > 0}, {schemas.BlobLatents, len(r.LatentsShape) > 0},
	} {
		if one.has {
			names = append(names, one.name)
		}
	}
	return names
}

// digestOf is the digest of a tensor, "" where the result has none.
func digestOf(name string, r schemas.Result) string {
	return map[string]string{schemas.BlobText: r.TextSHA256, schemas.BlobLatents: r.LatentsSHA256}[name]
}

// matches compares a tensor with its digest, where the result has one.
func matches(data []byte, name string, r schemas.Result) bool {
	want := digestOf(name, r)
	sum := sha256.Sum256(data)
	return want == "" || want == hex.EncodeToString(sum[:])
}

// resultOf is the result of a record that counts; false where there is none.
func resultOf(rec ledger.Record) (r schemas.Result, ok bool) {
	return r, rec.Status == ledger.Done && json.Unmarshal(rec.Row, &r) == nil
}

// holds reports whether a table has the tensor that the log calls name.
func (h *Home) holds(ctx context.Context, key ledger.Key, name string) (bool, error) {
	x, err := h.indexOf(ctx, columns[name].table)
	if err != nil {
		return false, err
	}
	_, ok := x.find(key)
	return ok, nil
}

// indexOf returns the index of a table, opened at the first call.
func (h *Home) indexOf(ctx context.Context, table string) (*index, error) {
	if x := h.open[table]; x != nil {
		return x, nil
	}
	x, err := h.openIndex(ctx, table)
	if err != nil {
		return nil, err
	}
	if h.open == nil {
		h.open = map[string]*index{}
	}
	h.open[table] = x
	return x, nil
}

// Close closes the tables that are open. The next question opens them as they are then.
func (h *Home) Close() {
	for _, x := range h.open {
		x.close()
	}
	h.open = nil
}

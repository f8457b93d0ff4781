// Package tensors stores the tensors of an output: in a write-ahead log and in the tables to which the log is flushed.
//
// The ledger is the log. Put adds a tensor to a ledger record as a blob, and Flush writes a file of a table. When the tables
// of a complete run are on disk, TruncateLog removes the tensors from the log that the tables have. Get and Has look in both
// places. A later run that rewrites a file of a table reads tensors from the old files, which stay open until it is done. Before
// a file is removed, tensors that only this file has are written back to the log. So every tensor is in at least one place at
// any time, even if a run is killed. If a user removes a table, its rows are in no place and are computed again.
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

// Home stores the tensors of one output. Only one goroutine may use it.
type Home struct {
	Output *fingerprints.Output
	Ledger *ledger.Ledger
	// KnownSizes are the sizes of the files that the last run wrote. A file with another size is written again.
	KnownSizes map[string]int64

	open map[string]*index // tables by name, as they were at the first read of a tensor
}

// column is the column of a table that stores a tensor.
type column struct {
	table, name string
	kind        stages.Kind
}

// columns maps the names of tensors in the log to their columns.
var columns = map[string]column{
	schemas.BlobText:         {"embeddings", "text_embedding_bytes", stages.KindText},
	schemas.BlobNegativeText: {"embeddings", "negative_embedding_bytes", stages.KindText},
	schemas.BlobLaterText:    {"embeddings", "later_embedding_bytes", stages.KindText},
	schemas.BlobLatents:      {"latents", "vae_latent_bytes", stages.KindLatents},
}

// Put adds a tensor to a record before it is committed, and returns the SHA-256 of the tensor's bytes.
func Put(r *ledger.Record, name string, a *stages.Array) string {
	data := kernels.F32.Bytes(a.Data)
	r.Blobs = append(r.Blobs, ledger.Blob{Name: name, Data: data})
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Has reports whether all tensors of a record of these kinds exist, in the log or in a table. result is the parsed result of the
// record. The first call that the log cannot answer opens the tables.
func (h *Home) Has(ctx context.Context, rec ledger.Record, result schemas.Result, kinds map[stages.Kind]bool) (bool, error) {
	if kinds[stages.KindText] && len(result.TextShape) == 0 || kinds[stages.KindLatents] && len(result.LatentsShape) == 0 {
		return false, nil // the earlier run did not publish this kind
	}
	for _, name := range namesOf(result) {
		if !kinds[columns[name].kind] || inLog(rec, name) {
			continue
		}
		if found, err := h.inTable(ctx, rec.Key, name); !found || err != nil {
			return false, err
		}
	}
	return true, nil
}

// Get reads a tensor of the record at which the cursor is positioned. If the tensor's table is damaged, the error is a
// *DamagedTableError.
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
			"computed again", name, rec.Key)
	}
	f := x.files[p.file]
	data, err := f.read(name, int64(p.row), result)
	switch {
	case errors.Is(err, store.ErrChanged): // another process replaced the file, and wrote the tensor to the log before
		now, findErr := cursor.Find(rec.Key)
		if findErr != nil || !inLog(now, name) {
			return nil, errors.Join(err, findErr)
		}
		return cursor.Blob(name)
	case unavailable(err):
		return nil, err
	case err == nil && !matches(data, name, result):
		err = fmt.Errorf("table %s: the %s of row %d differs from what was written there", f.table.Path(), name, p.row+1)
	}
	if err != nil {
		return nil, fault.Fatal(&DamagedTableError{f.name, err})
	}
	return data, nil
}

// DamagedTableError is the error for a file of a tensor table that is found damaged while the tables are written.
type DamagedTableError struct {
	File string // name in the output
	Err  error
}

// Error names the file and says what to do.
func (e *DamagedTableError) Error() string {
	return fmt.Sprintf("%s is damaged (%v); run again, which computes the lost rows again", e.File, e.Err)
}

// Unwrap returns the cause.
func (e *DamagedTableError) Unwrap() error { return e.Err }

// unavailable reports whether an error means that the store cannot answer now. Such an error does not mean damage.
func unavailable(err error) bool {
	return fault.ExitCode(err) == fault.ExitTryAgain || errors.Is(err, context.Canceled) ||
		errors.Is(err, context.DeadlineExceeded)
}

// inLog reports whether the record contains the tensor.
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

// digestOf returns the digest of a tensor; "": the result has none.
func digestOf(name string, r schemas.Result) string {
	return map[string]string{schemas.BlobText: r.TextSHA256, schemas.BlobLatents: r.LatentsSHA256}[name]
}

// matches reports whether a tensor matches its digest. It returns true if the result has no digest.
func matches(data []byte, name string, r schemas.Result) bool {
	want := digestOf(name, r)
	sum := sha256.Sum256(data)
	return want == "" || want == hex.EncodeToString(sum[:])
}

// resultOf returns the result of a record; false: the row is not finished.
func resultOf(rec ledger.Record) (r schemas.Result, ok bool) {
	return r, rec.Status == ledger.Done && json.Unmarshal(rec.Row, &r) == nil
}

// inTable reports whether a table has the tensor name of a key.
func (h *Home) inTable(ctx context.Context, key ledger.Key, name string) (bool, error) {
	x, err := h.indexOf(ctx, columns[name].table)
	if err != nil {
		return false, err
	}
	_, ok := x.find(key)
	return ok, nil
}

// indexOf returns the index of a table. The first call opens it.
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

// Close closes the open tables. The next read opens them again.
func (h *Home) Close() {
	for _, x := range h.open {
		x.close()
	}
	h.open = nil
}

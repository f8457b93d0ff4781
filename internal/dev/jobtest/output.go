package jobtest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"latentbeam/schemas"
)

// Output is the part of an output that equal jobs must reproduce byte for byte.
type Output struct {
	Files map[string]string   // digest of every file, without tables, the ledger and facts of runs
	Rows  map[string][]string // rows of each table as text, tensors as digests, sorted
}

// ReadOutput reads the output of a job. An output that does not exist is empty.
func ReadOutput(dir string) (Output, error) {
	out := Output{map[string]string{}, map[string][]string{}}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && path == dir {
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		switch folder, _, _ := strings.Cut(name, "/"); {
		case folder == "ledger", folder == "readings", folder == "runs", isRunFact(name):
			return nil
		case folder == "tables" && !IsTemporary(name):
			table, _, _ := strings.Cut(strings.TrimPrefix(name, "tables/"), "/")
			rows, err := TableRows(table, path)
			out.Rows[table] = append(out.Rows[table], rows...)
			return err
		}
		data, err := os.ReadFile(path)
		out.Files[name] = Digest(data)
		return err
	})
	for _, rows := range out.Rows {
		slices.Sort(rows)
	}
	return out, err
}

// IsTemporary reports whether a file is not published yet.
func IsTemporary(name string) bool { return strings.Contains(name, ".tmp-") }

// isRunFact reports whether a file may differ between equal runs.
func isRunFact(name string) bool {
	return strings.HasPrefix(name, "runs/") || strings.HasSuffix(name, "lock") || strings.HasSuffix(name, "job.json") ||
		strings.HasSuffix(name, "summary.json")
}

// Digest returns the SHA-256 of data in hexadecimal.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// TableRows reads a file of a table with parquet-go, not with internal/table.
func TableRows(table, path string) ([]string, error) {
	switch table {
	case "videos":
		return rowTexts(path, func(*schemas.VideoRow) string { return "" })
	case "latents":
		return rowTexts(path, func(r *schemas.LatentRow) string { return Digest(r.VAELatentBytes) })
	case "embeddings":
		return rowTexts(path, func(r *schemas.EmbeddingRow) string {
			return Digest(r.TextEmbeddingBytes) + Digest(r.NegativeEmbeddingBytes)
		})
	case "failures":
		return rowTexts(path, func(*schemas.FailureRow) string { return "" })
	}
	return nil, fmt.Errorf("%s: not a table of latentbeam", path)
}

func rowTexts[T schemas.Row](path string, blobs func(*T) string) ([]string, error) {
	rows, err := parquet.ReadFile[T](path)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	texts := make([]string, len(rows))
	for i := range rows {
		js, err := json.Marshal(rows[i]) // without blobs
		if err != nil {
			return nil, err
		}
		texts[i] = string(js) + blobs(&rows[i])
	}
	return texts, nil
}

// MustRead reads an output and fails the test on an error.
func MustRead(t *testing.T, dir string) Output {
	t.Helper()
	out, err := ReadOutput(dir)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// ReadRows reads all rows of one table of an output, in the order of its files.
func ReadRows[T schemas.Row](t *testing.T, dir, table string) []T {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "tables", table, "*.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	var all []T
	for _, f := range files {
		rows, err := parquet.ReadFile[T](f)
		if err != nil {
			t.Fatalf("read %s: %v", f, err)
		}
		all = append(all, rows...)
	}
	return all
}

// Diff returns the differences of two outputs; none if they are equal.
func (want Output) Diff(got Output) (wrong []string) {
	for name, sum := range want.Files {
		if other, ok := got.Files[name]; !ok {
			wrong = append(wrong, "missing "+name)
		} else if other != sum {
			wrong = append(wrong, "other bytes in "+name)
		}
	}
	for name := range got.Files {
		if _, ok := want.Files[name]; !ok {
			wrong = append(wrong, "left over "+name)
		}
	}
	for _, table := range []string{"videos", "latents", "embeddings", "failures"} {
		wrong = append(wrong, DiffRows(table, want.Rows[table], got.Rows[table])...)
	}
	slices.Sort(wrong)
	return wrong
}

// DiffRows returns the first difference between the rows of a table.
func DiffRows(table string, want, got []string) (wrong []string) {
	if len(want) != len(got) {
		wrong = append(wrong, fmt.Sprintf("table %s has %d rows, want %d", table, len(got), len(want)))
	}
	for i := range min(len(want), len(got)) {
		if want[i] != got[i] {
			return append(wrong, fmt.Sprintf("table %s:\n got %.600s\nwant %.600s", table, got[i], want[i]))
		}
	}
	return wrong
}

// VideoFiles returns the files of the row with an id.
func VideoFiles(t *testing.T, dir, id string) []string {
	t.Helper()
	for _, r := range ReadRows[schemas.VideoRow](t, dir, "videos") {
		if r.ID == id {
			return []string{r.VideoPath, r.Poster}
		}
	}
	t.Fatalf("no row of id %q in the table of videos", id)
	return nil
}

// Stamps returns the size and time of every file below dir except the lock.
func Stamps(t *testing.T, dir string) map[string]fs.FileInfo {
	t.Helper()
	all := map[string]fs.FileInfo{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Base(path) == ".lock" {
			return err
		}
		all[path], err = d.Info()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Touched returns which of the named files, or of all files if none is named, were written after stamps were made.
func Touched(t *testing.T, dir string, before map[string]fs.FileInfo, names ...string) (paths []string) {
	t.Helper()
	after := Stamps(t, dir)
	for path, was := range before {
		is := after[path]
		name, err := filepath.Rel(dir, path)
		if err != nil {
			t.Fatal(err)
		}
		if len(names) > 0 && !slices.Contains(names, filepath.ToSlash(name)) {
			continue
		}
		if is == nil || !os.SameFile(was, is) || !was.ModTime().Equal(is.ModTime()) || was.Size() != is.Size() {
			paths = append(paths, path)
		}
	}
	if len(after) != len(before) && len(names) == 0 {
		paths = append(paths, fmt.Sprintf("%d files and directories, there were %d", len(after), len(before)))
	}
	return paths
}

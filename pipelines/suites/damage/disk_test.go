package damage

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/internal/storage/ledger"
	"latentbeam/internal/storage/store/dir"
)

// inLedger returns how many bytes of tensors the ledger of an output has.
func inLedger(t *testing.T, out string) (total int64) {
	t.Helper()
	dir, err := dir.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	l, err := ledger.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	err = l.Each(context.Background(), func(_ ledger.Ref, r ledger.Record) error {
		for _, b := range r.Blobs {
			total += b.Size
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return total
}

// size returns the size of the files below a directory.
func size(t *testing.T, dir string) (total int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			total += info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return total
}

// TestTensorsAreOnDiskOnce: the ledger of a complete run has no tensors, and later changes of the table compute no
// known rows again.
func TestTensorsAreOnDiskOnce(t *testing.T) {
	j := jobtest.NewJob(t, jobtest.DiskTable)
	j.Sets = []string{"output.rows_per_file=2"}
	j.Computes(t, 5)
	if n := inLedger(t, j.Out); n != 0 {
		t.Errorf("the ledger has %d bytes of tensors after a complete run", n)
	}
	if l, tables := size(t, j.Out+"/ledger"), size(t, j.Out+"/tables"); l > tables/4 {
		t.Errorf("the ledger has %d bytes, too many for tables of %d bytes", l, tables)
	}
	edited := strings.Replace(jobtest.DiskTable, "moves up", "moves down", 1)
	lines := strings.SplitAfter(jobtest.DiskTable, "\n")
	head, body := lines[0], lines[1:6]
	reversed := slices.Clone(body)
	slices.Reverse(reversed)
	for _, c := range []struct {
		what, table string
		sets        []string
		computed    int64
	}{
		{"one prompt edited", edited, nil, 1},
		{"and edited back", jobtest.DiskTable, nil, 0},
		{"a new first row", head + "z,a red square moves right,\n" + strings.Join(body, ""), nil, 1},
		{"the new row removed", jobtest.DiskTable, nil, 0},
		{"another order", head + strings.Join(reversed, ""), nil, 0},
		{"only the last row", head + body[4], nil, 0},
		{"all rows again", jobtest.DiskTable, nil, 0},
		{"larger files", jobtest.DiskTable, []string{"output.rows_per_file=4"}, 0},
		{"no latents", jobtest.DiskTable, []string{"output.write=[video, embeddings]"}, 0},
		{"only videos", jobtest.DiskTable, []string{"output.write=[video]"}, 0},
		{"everything", jobtest.DiskTable, []string{"output.rows_per_file=3"}, 0},
	} {
		j.Rewrite(t, c.table)
		if c.sets != nil {
			j.Sets = c.sets
		}
		j.Computes(t, c.computed)
		sameTables(t, j, c.what)
	}
}

// sameTables compares the tables of a job with those of a new run. Videos of rows that are in the table no more may exist.
func sameTables(t *testing.T, j jobtest.Job, what string) {
	t.Helper()
	fresh := j.Elsewhere(t)
	fresh.MustRun(t)
	want, got := jobtest.MustRead(t, fresh.Out), jobtest.MustRead(t, j.Out)
	got.Files, want.Files = nil, nil
	if wrong := want.Diff(got); len(wrong) > 0 {
		t.Errorf("%s: the tables differ from those of a new run:\n%s", what, strings.Join(wrong, "\n"))
	}
}

// TestRemovedTable: if a table with the only copy of tensors is removed or damaged, its rows are computed
// again.
func TestRemovedTable(t *testing.T) {
	j := jobtest.NewJob(t, jobtest.DiskTable)
	j.Sets = []string{"output.rows_per_file=2"}
	j.MustRun(t)
	file := filepath.Join(j.Out, "tables", "latents", "00001.parquet")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	j.Computes(t, 2)
	j.SameAs(t, j.Elsewhere(t))

	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	row := jobtest.ReadRows[latentBytes](t, j.Out, "latents")[2]
	at := bytes.Index(data, row.Bytes)
	if at < 0 {
		t.Fatal("the file does not contain the bytes of the tensor")
	}
	data[at] ^= 1
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
	j.Rewrite(t, strings.Replace(jobtest.DiskTable, "moves down", "moves up", 1)) // row d, in the same file
	j.Computes(t, 2)                                                              // row c, which is damaged, and d
	sameTables(t, j, "after a damaged table")
}

type latentBytes struct {
	Bytes []byte `parquet:"vae_latent_bytes"`
}

func (latentBytes) Schema() string { return "" }
func (latentBytes) ByteSize() int  { return 0 }

package pipelines_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"latentbeam/internal/storage/ledger"
	"latentbeam/internal/storage/store/dir"
	"latentbeam/internal/system/testaid"
	"latentbeam/schemas/fault"
)

// diskTable has more rows than a file of a table holds in these tests.
const diskTable = `id,prompt,negative_prompt
a,a red circle moves left,
b,a blue square moves up,blurred
c,a green triangle stays still,
d,a white circle moves down,
e,a yellow square moves right,
`

// inLedger is how many bytes of tensors the ledger of an output has.
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

// size is how many bytes the files below a directory have.
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

// TestTensorsAreOnDiskOnce: the ledger of a complete run has no tensors, and nothing that is done to the
// table then computes what is known already.
func TestTensorsAreOnDiskOnce(t *testing.T) {
	j := newJob(t, diskTable)
	j.sets = []string{"output.rows_per_file=2"}
	j.computes(t, 5)
	if n := inLedger(t, j.out); n != 0 {
		t.Errorf("the ledger has %d bytes of tensors after a complete run", n)
	}
	if l, tables := size(t, j.out+"/ledger"), size(t, j.out+"/tables"); l > tables/4 {
		t.Errorf("the ledger has %d bytes, the tables %d", l, tables)
	}
	edited := strings.Replace(diskTable, "moves up", "moves down", 1)
	lines := strings.SplitAfter(diskTable, "\n")
	head, body := lines[0], lines[1:6]
	reversed := slices.Clone(body)
	slices.Reverse(reversed)
	for _, c := range []struct {
		what, table string
		sets        []string
		computed    int64
	}{
		{"one prompt edited", edited, nil, 1},
		{"and edited back", diskTable, nil, 0},
		{"a row before all", head + "z,a red square moves right,\n" + strings.Join(body, ""), nil, 1},
		{"that row gone", diskTable, nil, 0},
		{"another order", head + strings.Join(reversed, ""), nil, 0},
		{"only the first", head + body[4], nil, 0},
		{"all again", diskTable, nil, 0},
		{"larger files", diskTable, []string{"output.rows_per_file=4"}, 0},
		{"no latents", diskTable, []string{"output.write=[video, embeddings]"}, 0},
		{"only videos", diskTable, []string{"output.write=[video]"}, 0},
		{"everything", diskTable, []string{"output.rows_per_file=3"}, 0},
	} {
		j.rewrite(t, c.table)
		if c.sets != nil {
			j.sets = c.sets
		}
		j.computes(t, c.computed)
		j.sameTables(t, c.what)
	}
}

// sameTables compares the tables with those of a new run. Of rows that are gone, videos stay.
func (j job) sameTables(t *testing.T, what string) {
	t.Helper()
	fresh := j.elsewhere(t)
	fresh.mustRun(t)
	want, got := mustRead(t, fresh.out), mustRead(t, j.out)
	got.files, want.files = nil, nil
	if wrong := want.diff(got); len(wrong) > 0 {
		t.Errorf("%s:\n%s", what, strings.Join(wrong, "\n"))
	}
}

// TestRemovedTable: where somebody removed or damaged a table that alone had tensors, its rows are computed
// again.
func TestRemovedTable(t *testing.T) {
	j := newJob(t, diskTable)
	j.sets = []string{"output.rows_per_file=2"}
	j.mustRun(t)
	file := filepath.Join(j.out, "tables", "latents", "00001.parquet")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	j.computes(t, 2)
	j.sameAs(t, j.elsewhere(t))

	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	row := readRows[latentBytes](t, j.out, "latents")[2]
	at := bytes.Index(data, row.Bytes)
	if at < 0 {
		t.Fatal("the tensor is not in its file as it is")
	}
	data[at] ^= 1
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
	j.rewrite(t, strings.Replace(diskTable, "moves down", "moves up", 1)) // row d, in the same file
	j.computes(t, 2)                                                      // row c, which is damaged, and d
	j.sameTables(t, "after a damaged table")
}

type latentBytes struct {
	Bytes []byte `parquet:"vae_latent_bytes"`
}

func (latentBytes) Schema() string { return "" }
func (latentBytes) ByteSize() int  { return 0 }

// TestKillBetweenTables kills a run that only puts rows into another order, at every file that gets its
// name and at every step of giving up the tensors. Nothing is computed again.
func TestKillBetweenTables(t *testing.T) {
	testaid.Long(t, "kills some 20 processes")
	lines := strings.SplitAfter(strings.TrimSuffix(crashTable, "\n"), "\n")
	other := lines[0]
	for i := len(lines) - 1; i > 0; i-- {
		other += strings.TrimSuffix(lines[i], "\n") + "\n"
	}
	sets := append([]string{"output.rows_per_file=6"}, crashSets...)
	first := &crashJob{life: life{Prompts: writeTable(t, "prompts.csv", crashTable), Sets: sets}}
	first.prepare(t)
	second := &crashJob{life: life{Prompts: writeTable(t, "prompts.csv", other), Sets: sets}, old: first.Out}
	hits := second.prepare(t)
	var wg sync.WaitGroup
	slot := make(chan bool, 4)
	n := 0
	for _, point := range []string{fault.StoreReplaceRenamed, fault.LedgerCommitAfterPut,
		fault.LedgerCompactSegmentPut, fault.LedgerCompactBeforeRemove, fault.LedgerCompactRemoved} {
		for hit := range hits[point] {
			l := second.at(point, hit+1)
			l.Out = second.fresh(t)
			slot <- true
			n++
			wg.Go(func() {
				defer func() { <-slot }()
				if wrong := second.breakFree(l, t); len(wrong) > 0 {
					t.Errorf("killed at %s:%d: %s", l.Point, l.Hit, strings.Join(wrong, "\n"))
				}
			})
		}
	}
	wg.Wait()
	t.Logf("%d kills: %v", n, hits)
}

// breakFree leads a life to its end and resumes it, which must not compute anything.
func (c *crashJob) breakFree(l life, t *testing.T) []string {
	cmd, text := l.start(t)
	if err := cmd.Wait(); !killed(err) {
		return []string{fmt.Sprintf("the child ended with %v: %s", err, text)}
	}
	r, err := l.job().run()
	if err != nil {
		return []string{err.Error()}
	}
	got, err := readOutput(l.Out)
	if err != nil {
		return []string{err.Error()}
	}
	wrong := c.want.diff(got)
	if r.Done > 0 {
		wrong = append(wrong, fmt.Sprintf("%d elements were computed again", r.Done))
	}
	return wrong
}

package pipelines_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/pipelines"
)

// seen counts what look found in an output while its job ran. Each look reads the page and all tables.
type seen struct {
	unfinished int // number of looks at a page that says that the job is unfinished
	gained     int // number of looks at a full table of tensors
	early      int // number of looks at a table with videos
	wrong      []string
}

// look polls an output until quit is closed.
func look(t *testing.T, out string, old []string, quit chan struct{}) *seen {
	s := &seen{}
	for {
		select {
		case <-quit:
			return s
		case <-time.After(5 * time.Millisecond):
		}
		page, err := os.ReadFile(filepath.Join(out, "index.html"))
		if err != nil {
			continue
		}
		if bytes.Contains(page, []byte(`id="unfinished"`)) {
			s.unfinished++
		}
		files, _ := filepath.Glob(filepath.Join(out, "tables", "*", "*.parquet"))
		flat, _ := filepath.Glob(filepath.Join(out, "tables", "*.parquet"))
		for _, f := range append(files, flat...) {
			table := strings.FieldsFunc(strings.TrimPrefix(f, filepath.Join(out, "tables")),
				func(r rune) bool { return r == '/' || r == '-' })[0]
			rows, err := jobtest.TableRows(table, f)
			if os.IsNotExist(err) { // a file at the end of a longer table was removed
				continue
			}
			switch {
			case err != nil:
				s.wrong = append(s.wrong, fmt.Sprintf("%s: %v", f, err))
			case table == "videos" && len(rows) > 0:
				s.early++
			case table == "latents" && !slices.Contains(old, filepath.Base(f)):
				last := strings.HasSuffix(f, "00006.parquet") // of 13 rows that are done; the end of the run writes it
				if s.gained++; len(rows) != 2 && !last {
					s.wrong = append(s.wrong, fmt.Sprintf("%s has %d rows", f, len(rows)))
				}
			}
		}
	}
}

// lookedAt runs the job, and look beside it, and returns what look has counted.
func lookedAt(t *testing.T, j jobtest.Job) *seen {
	t.Helper()
	var old []string
	for _, pattern := range []string{"latents-*", "latents/*"} {
		files, _ := filepath.Glob(filepath.Join(j.Out, "tables", pattern))
		for _, f := range files {
			old = append(old, filepath.Base(f))
		}
	}
	quit, result := make(chan struct{}), make(chan *seen)
	go func() { result <- look(t, j.Out, old, quit) }()
	j.MustRun(t)
	close(quit)
	return <-result
}

// TestWhileItRuns: tables and pages exist while a job runs, and at its end they are equal to those of a run without early reports.
func TestWhileItRuns(t *testing.T) {
	var table strings.Builder
	table.WriteString("id,prompt,height,seed\n")
	for i := range 16 {
		height := 16
		if i%5 == 3 {
			height = 17 // fails
		}
		fmt.Fprintf(&table, "r%d,a red circle moves left %d,%d,%d\n", i, i, height, i)
	}
	j := jobtest.NewJob(t, table.String())
	j.Sets = append(j.Sets, "output.write=[video,latents,embeddings]", "output.rows_per_file=2", "resources.batch_size=1")
	fresh := j.Elsewhere(t)
	fresh.MustRun(t)
	want := jobtest.MustRead(t, fresh.Out)

	defer pipelines.WriteEarlyEvery(time.Millisecond)()
	s := lookedAt(t, j)
	t.Logf("looks: %d at an unfinished page, %d at a full table of tensors, %d at a table with videos", s.unfinished, s.gained, s.early)
	if s.unfinished == 0 || s.gained == 0 || s.early == 0 || len(s.wrong) > 0 {
		t.Errorf("while the job ran, look has not seen all states: %+v", s)
	}
	if wrong := want.Diff(jobtest.MustRead(t, j.Out)); len(wrong) > 0 {
		t.Errorf("the output differs from that of a run without early reports: %v", wrong)
	}
	sameFiles(t, fresh.Out, j.Out)

	// A new first row moves every row to another file. The old files then have the only copies of tensors.
	more := strings.Replace(table.String(), "seed\n", "seed\nfirst,a green square stays still,16,5\n", 1)
	j.Rewrite(t, more)
	fresh = j.Elsewhere(t)
	s = lookedAt(t, j)
	if len(s.wrong) > 0 {
		t.Errorf("after a new first row, look has not seen all states: %+v", s)
	}
	pipelines.WriteEarlyEvery(time.Hour)
	j.SameAs(t, fresh)
	sameFiles(t, fresh.Out, j.Out)
}

// sameFiles compares the tables and pages of two outputs byte for byte.
func sameFiles(t *testing.T, a, b string) {
	t.Helper()
	compared := 0
	for _, pattern := range []string{"tables/*.parquet", "tables/*/*.parquet", "*.parquet", "index*.html"} {
		files, _ := filepath.Glob(filepath.Join(a, pattern))
		others, _ := filepath.Glob(filepath.Join(b, pattern))
		if len(files) != len(others) {
			t.Errorf("%s: %d files, but %d in the other output", pattern, len(files), len(others))
		}
		for _, f := range files {
			rest, err := filepath.Rel(a, f)
			jobtest.Must(t, err)
			want, err := os.ReadFile(f)
			jobtest.Must(t, err)
			got, err := os.ReadFile(filepath.Join(b, rest))
			jobtest.Must(t, err)
			if !bytes.Equal(want, got) {
				t.Errorf("%s differs", rest)
			}
			compared++
		}
	}
	if compared < 5 {
		t.Errorf("only %d files were compared", compared)
	}
}

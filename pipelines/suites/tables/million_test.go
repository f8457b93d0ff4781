package tables

import (
	"bufio"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/internal/storage/store"
	"latentbeam/internal/storage/store/dir"
	"latentbeam/internal/system/testaid"
	"latentbeam/internal/table/typed"
	"latentbeam/internal/table/write"
	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/stages"
)

const (
	millionEnv    = "LATENTBEAM_MILLION"          // number of rows; 1000000 for the full test
	millionDirEnv = "LATENTBEAM_TEST_MILLION_DIR" // makes this binary the child that runs the job in this directory

	rowsUsually = 100_000
	rowsShort   = 30_000
	rowsSmall   = 10_000
	poisonEvery = 1000

	// Memory may grow by bytesARow for each row, and by buffersKiB for buffers that are full only after some ten thousand rows. In a
	// test with rowsOfWhole rows, the buffers count as memory of the rows.
	bytesARow   = 64
	buffersKiB  = 24 << 10
	rowsOfWhole = 1_000_000
)

// figures are the measurements of a child process.
type figures struct {
	Rows, Done, Failed int64
	Seconds, Plain     float64 // seconds of the job, and of plainPipeline
	PeakKiB            int64   // resident memory after the job
}

// TestMillionRows runs prompts through the whole pipeline to a table of latents, with a model that computes almost
// nothing. Memory must not grow by more than 64 bytes per row, and no row is lost. One row in a thousand fails, alone or
// with its batch.
func TestMillionRows(t *testing.T) {
	if dir := os.Getenv(millionDirEnv); dir != "" {
		millionChild(t, dir)
		return
	}
	usual := rowsUsually
	if testing.Short() {
		usual = rowsShort
	}
	n := testaid.Count(t, millionEnv, usual)
	small, large := million(t, rowsSmall), million(t, n)
	each := func(seconds float64) float64 { return seconds * 1e6 / float64(n) }
	grown := large.PeakKiB - small.PeakKiB
	t.Logf("%d rows: %.1f us a row, %.1f us in plain goroutines", n, each(large.Seconds), each(large.Plain))
	t.Logf("resident %d MiB, %d MiB for %d rows: %.0f bytes a row", large.PeakKiB>>10, small.PeakKiB>>10,
		rowsSmall, float64(grown)*1024/float64(n-rowsSmall))
	t.Logf("P3: %d rows, %d of them poisoned: each is in one table, %d MiB resident", n, n/poisonEvery, large.PeakKiB>>10)
	allowed := int64(bytesARow * (n - rowsSmall) >> 10)
	if n < rowsOfWhole {
		allowed += buffersKiB
	}
	if grown > allowed {
		t.Errorf("memory grows by %d KiB, want at most %d KiB", grown, allowed)
	}
}

// million runs a table of n rows in a separate process and checks that every row is counted.
func million(t *testing.T, n int) (got figures) {
	t.Helper()
	dir := t.TempDir()
	writeMillion(t, filepath.Join(dir, "prompts.csv"), n)
	cmd := exec.Command(os.Args[0], "-test.run=^TestMillionRows$", "-test.timeout=30m")
	cmd.Env = append(os.Environ(), millionDirEnv+"="+dir)
	if n < rowsOfWhole { // reduce garbage, whose amount depends on the load of the machine
		cmd.Env = append(cmd.Env, "GOGC=25")
	}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := json.NewDecoder(strings.NewReader(string(out))).Decode(&got); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	bad := int64(n / poisonEvery)
	if got.Rows != int64(n) || got.Failed != bad || got.Done != int64(n)-bad {
		t.Errorf("%d rows: got %+v, want %d failures", n, got, bad)
	}
	for name, want := range map[string]int64{"latents": got.Done, "failures": got.Failed} {
		if rows := countRows(t, filepath.Join(dir, "out"), name); rows != want {
			t.Errorf("table %s has %d rows, want %d", name, rows, want)
		}
	}
	return got
}

// writeMillion writes a prompt table of n rows.
func writeMillion(t *testing.T, path string, n int) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := bufio.NewWriter(f)
	fmt.Fprintln(w, "prompt,category")
	for i := range n {
		word := "kitten"
		if i%poisonEvery == poisonEvery/2 {
			word = []string{"poison", "panic"}[i/poisonEvery%2]
		}
		fmt.Fprintf(w, "a %s number %d walks along a river at dawn,animals\n", word, i)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
}

// countRows sums the numbers of rows in the files of a table.
func countRows(t *testing.T, out, name string) (n int64) {
	t.Helper()
	d, err := dir.OpenExisting(out)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for info, err := range d.List(t.Context(), "tables/"+name+"/", store.Flat) {
		if err != nil {
			t.Fatal(err)
		}
		file, err := d.Open(t.Context(), info.Name)
		if err != nil {
			t.Fatal(err)
		}
		f, err := typed.OpenTensors(info.Name, file)
		if err != nil {
			t.Fatal(err)
		}
		n += f.Rows()
		f.Close()
	}
	return n
}

// millionChild is the process that runs the job and plainPipeline and prints its figures.
func millionChild(t *testing.T, dir string) {
	j := jobtest.Job{Prompts: filepath.Join(dir, "prompts.csv"), Out: filepath.Join(dir, "out"), Stages: "[toy]",
		Sets: []string{"output.write=[latents]"}, Specs: []stages.Spec{jobtest.ToySpec()}}
	began := time.Now()
	r := j.MustRun(t)
	got := figures{Rows: r.Totals.Rows, Done: r.Totals.Done, Failed: r.Totals.Failed,
		Seconds: time.Since(began).Seconds(), PeakKiB: peakKiB(t)}
	began = time.Now()
	if err := plainPipeline(j.Prompts, filepath.Join(dir, "plain.parquet")); err != nil {
		t.Fatal(err)
	}
	got.Plain = time.Since(began).Seconds()
	if err := json.NewEncoder(os.Stdout).Encode(got); err != nil {
		t.Fatal(err)
	}
}

// peakKiB returns the peak resident memory of this process.
func peakKiB(t *testing.T) (kib int64) {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip("needs /proc")
	}
	_, text, _ := strings.Cut(string(status), "VmHWM:")
	if _, err := fmt.Sscan(text, &kib); err != nil {
		t.Fatal(err)
	}
	return kib
}

// plainPipeline is a pipeline without Beam, keys, a ledger and a second pass over the input, for comparison:
// goroutines that read rows, batch them, make the same latents, and write the same kind of table.
func plainPipeline(prompts, out string) error {
	batches, done := make(chan []*stages.Element, 2), make(chan []*stages.Element, 2)
	var readErr error
	go func() {
		defer close(batches)
		readErr = readBatches(prompts, batches)
	}()
	go func() {
		defer close(done)
		for batch := range batches {
			for _, e := range batch {
				if !strings.Contains(e.Row.Prompt, "panic") {
					_ = jobtest.Toy{}.Run(context.Background(), nil, []*stages.Element{e}) // it never fails
				}
			}
			done <- batch
		}
	}()
	f, err := os.Create(out)
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriter(f)
	_, err = write.Write(w, func(yield func(schemas.LatentRow, error) bool) {
		for batch := range done {
			for _, e := range batch {
				if e.Latents != nil && !yield(schemas.LatentRow{ID: e.Row.ID, Caption: e.Row.Prompt, Extra: e.Row.Extra,
					VAELatentBytes: kernels.F32.Bytes(e.Latents.Data), VAELatentDType: "float32"}, nil) {
					return
				}
			}
		}
	}, write.Options{})
	return errors.Join(readErr, err, w.Flush())
}

func readBatches(prompts string, batches chan<- []*stages.Element) error {
	const batchRows = 256
	f, err := os.Open(prompts)
	if err != nil {
		return err
	}
	defer f.Close()
	var batch []*stages.Element
	for r := csv.NewReader(bufio.NewReader(f)); ; {
		record, err := r.Read()
		if err != nil || len(batch) == batchRows {
			batches <- batch
			batch = nil
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		batch = append(batch, &stages.Element{Row: schemas.PromptRow{Prompt: record[0], Extra: record[1]}})
	}
}

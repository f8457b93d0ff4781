package pipelines_test

import (
	"context"
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

	"latentbeam/internal/config"
	"latentbeam/pipelines"
	"latentbeam/pipelines/jobfile"
	"latentbeam/runners"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/catalog"
)

// job is a job of a test: the built-in model on the smallest shape, two sampling steps, all tables.
type job struct {
	prompts string // path of the prompt table
	input   string // the YAML map; "": the prompt table
	out     string // the output
	stages  string // the YAML list; "": text to video
	sets    []string
	specs   []stages.Spec // added to the catalogue
	replace *stages.Spec  // of the catalogue, instead of the one of its name
	opts    pipelines.Options
}

const textToVideo = "[encode_text, denoise, decode_vae, guard, encode_video]"

// smallest are the defaults of a job that takes milliseconds a row.
const smallest = "{height: 16, width: 16, num_frames: 2, fps: 8, seed: 42, " +
	"num_inference_steps: 2, guidance_scale: 4}"

// yaml is the job as its file.
func (j job) yaml() string {
	list := j.stages
	if list == "" {
		list = textToVideo
	}
	input := j.input
	if input == "" {
		input = fmt.Sprintf("{prompts: %q}", j.prompts)
	}
	return fmt.Sprintf("version: 1\nmodel: tiny\ninput: %s\ndefaults: %s\nstages: %s\n"+
		"output: {path: %q, write: [video, latents, embeddings]}\n", input, smallest, list, j.out)
}

// unattached opens the job without its output.
func (j job) unattached() (*pipelines.Job, error) {
	cfg, err := config.Parse("job.yaml", j.yaml(), j.sets)
	if err != nil {
		return nil, err
	}
	o := j.opts
	o.Specs, o.Version = append(catalog.All(), j.specs...), "test"
	for i, s := range o.Specs {
		if j.replace != nil && s.Name == j.replace.Name {
			o.Specs[i] = *j.replace
		}
	}
	o.Start = jobfile.Start{File: "job.yaml", YAML: j.yaml(), Sets: j.sets}
	return pipelines.Open(cfg, o)
}

// open opens and attaches the job.
func (j job) open() (*pipelines.Job, error) {
	opened, err := j.unattached()
	if err != nil {
		return nil, err
	}
	if err := opened.Attach(context.Background()); err != nil {
		opened.Close()
		return nil, err
	}
	return opened, nil
}

// run runs the job to its end.
func (j job) run() (pipelines.Result, error) {
	opened, err := j.open()
	if err != nil {
		return pipelines.Result{}, err
	}
	defer opened.Close()
	return opened.Run(context.Background(), nil)
}

// mustRun runs the job and fails the test on an error.
func (j job) mustRun(t *testing.T) pipelines.Result {
	t.Helper()
	r, err := j.run()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// inProcess lists the runners that need nothing but this process. Those that the build lacks are told.
func inProcess(t *testing.T) (all []runners.Runner) {
	t.Helper()
	for _, r := range runners.All() {
		switch {
		case r.Missing != "":
			t.Logf("NOT TESTED: runner %s: %s (make test has the tag)", r.Name, r.Missing)
		case !r.Distributed:
			all = append(all, r)
		}
	}
	return all
}

// needPrism skips a test where the build lacks prism.
func needPrism(t *testing.T) {
	t.Helper()
	if r, err := runners.Find("prism"); err != nil || r.Missing != "" {
		t.Skip(r.Missing)
	}
}

// writeTable writes a prompt table into a new directory and returns its path.
func writeTable(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// output is all that a job promises to make again byte for byte.
type output struct {
	files map[string]string   // digest of every file but the tables, the ledger and the run facts
	rows  map[string][]string // rows of each table as text, tensors as digests, sorted
}

// readOutput reads the output of a job; one that is not there yet is empty.
func readOutput(dir string) (output, error) {
	out := output{map[string]string{}, map[string][]string{}}
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
		case folder == "tables" && !isTemporary(name):
			table, _, _ := strings.Cut(strings.TrimPrefix(name, "tables/"), "/")
			rows, err := tableRows(table, path)
			out.rows[table] = append(out.rows[table], rows...)
			return err
		}
		data, err := os.ReadFile(path)
		out.files[name] = digest(data)
		return err
	})
	for _, rows := range out.rows {
		slices.Sort(rows)
	}
	return out, err
}

// isTemporary tells the files that are not published yet.
func isTemporary(name string) bool { return strings.Contains(name, ".tmp-") }

// isRunFact tells the files that may differ between equal runs.
func isRunFact(name string) bool {
	return strings.HasPrefix(name, "runs/") || strings.HasSuffix(name, "lock") || strings.HasSuffix(name, "job.json") ||
		strings.HasSuffix(name, "summary.json")
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// tableRows reads one file of a table with parquet-go alone, not with our reader.
func tableRows(table, path string) ([]string, error) {
	switch table {
	case "videos":
		return rowTexts(path, func(*schemas.VideoRow) string { return "" })
	case "latents":
		return rowTexts(path, func(r *schemas.LatentRow) string { return digest(r.VAELatentBytes) })
	case "embeddings":
		return rowTexts(path, func(r *schemas.EmbeddingRow) string {
			return digest(r.TextEmbeddingBytes) + digest(r.NegativeEmbeddingBytes)
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
		js, err := json.Marshal(rows[i]) // leaves the blobs out
		if err != nil {
			return nil, err
		}
		texts[i] = string(js) + blobs(&rows[i])
	}
	return texts, nil
}

// mustRead reads an output and fails the test on an error.
func mustRead(t *testing.T, dir string) output {
	t.Helper()
	out, err := readOutput(dir)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// readRows reads all rows of one table of an output, in the order of its files.
func readRows[T schemas.Row](t *testing.T, dir, table string) []T {
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

// diff says in what two outputs differ, nothing when they are equal.
func (want output) diff(got output) (wrong []string) {
	for name, sum := range want.files {
		if other, ok := got.files[name]; !ok {
			wrong = append(wrong, "missing "+name)
		} else if other != sum {
			wrong = append(wrong, "other bytes in "+name)
		}
	}
	for name := range got.files {
		if _, ok := want.files[name]; !ok {
			wrong = append(wrong, "left over "+name)
		}
	}
	for _, table := range []string{"videos", "latents", "embeddings", "failures"} {
		wrong = append(wrong, diffRows(table, want.rows[table], got.rows[table])...)
	}
	slices.Sort(wrong)
	return wrong
}

func diffRows(table string, want, got []string) (wrong []string) {
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

// runs takes a job with the real stages from the configuration to its end.
func runs(t *testing.T, cfg *config.Config) pipelines.Result {
	t.Helper()
	job, err := pipelines.Open(cfg, pipelines.Options{Specs: catalog.All(), Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer job.Close()
	if err := job.Attach(context.Background()); err != nil {
		t.Fatal(err)
	}
	r, err := job.Run(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

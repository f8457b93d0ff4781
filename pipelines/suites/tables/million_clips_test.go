package tables

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/internal/results/export"
	"latentbeam/internal/storage/store/dir"
	"latentbeam/stages"
)

const (
	clipsEnv    = "LATENTBEAM_CLIPS"          // number of clips; 1000000 for the full test
	clipsDirEnv = "LATENTBEAM_TEST_CLIPS_DIR" // makes this binary the child that works in this directory
	clipsToEnv  = "LATENTBEAM_TEST_CLIPS_TO"  // format that the child exports; "": it runs the job

	clipsLarge = 500_000 // with fewer clips, growing buffers hide the memory per clip, so bytesAClip is not checked
	// bytesAClip limits the memory for a clip. It is not 0, because a run stores the digest of each file.
	bytesAClip = 256
)

// smallClip encodes a clip and its caption with almost no computation, into latents with the shape of Wan's.
func smallClip() []stages.Spec {
	spec := func(name string, in, out stages.Kind, p stages.Param, run func(e *stages.Element)) stages.Spec {
		return stages.Spec{Name: name, Version: 1, In: in, Out: out, Params: []stages.Param{p},
			New: func(*stages.Model, stages.Options) (stages.Stage, error) { return &jobtest.Looker{Look: run}, nil }}
	}
	return []stages.Spec{
		spec("small_clip", stages.KindMedia, stages.KindLatents, stages.ParamMedia, func(e *stages.Element) {
			e.RawLatents = stages.NewArray(16, 1, 1, 1)
			e.RawLatents.Data[3] = float32(len(e.Row.Media))
			e.Latents, e.LatentScale = e.RawLatents, 1
		}),
		spec("small_text", stages.KindPrompt, stages.KindText, stages.ParamPrompt, func(e *stages.Element) {
			e.Text = &stages.Text{Embedding: &stages.Array{Shape: []int{1, 2}, Data: []float32{float32(len(e.Row.Prompt)), 1}}}
		}),
	}
}

// TestMillionClips: the memory of a job on clips, and of each export of its table, grows only by bytesAClip for each clip. No clip is
// lost.
func TestMillionClips(t *testing.T) {
	if at := os.Getenv(clipsDirEnv); at != "" {
		clipsChild(t, at, os.Getenv(clipsToEnv))
		return
	}
	text := os.Getenv(clipsEnv)
	if text == "" {
		t.Skip("minutes of clips: set " + clipsEnv + "=1000000")
	}
	n, err := strconv.Atoi(text)
	jobtest.Must(t, err)
	// Formats with a file for each clip are slow, so they export a tenth of the clips.
	files := []string{"musubi", "safetensors"}
	all := slices.DeleteFunc(export.Formats(), func(to string) bool { return to == "lerobot" }) // its rows are videos
	tables := slices.DeleteFunc(slices.Clone(all), func(to string) bool { return slices.Contains(files, to) })
	fewest, few := n/100, n/10
	some := manyClips(t, fewest, files)
	small, large := manyClips(t, few, all), manyClips(t, n, tables)
	for _, to := range files {
		grows(t, to, fewest, few, some[to], small[to])
	}
	for _, what := range append(tables, "the job") {
		grows(t, what, few, n, small[what], large[what])
	}
}

// grows returns the growth of memory between two numbers of clips.
func grows(t *testing.T, what string, few, many int, small, large figures) {
	t.Helper()
	each := float64(large.PeakKiB-small.PeakKiB) * 1024 / float64(many-few)
	t.Logf("P3: %s, %d clips: %d MiB resident, %d MiB for %d: %.0f bytes a clip", what, many, large.PeakKiB>>10,
		small.PeakKiB>>10, few, each)
	if many >= clipsLarge && each > bytesAClip {
		t.Errorf("%s: memory grows by %.0f bytes a clip, more than %d", what, each, bytesAClip)
	}
}

// manyClips runs a job on n clips, and each export of its table, in separate processes. Every clip has its own
// file.
func manyClips(t *testing.T, n int, formats []string) map[string]figures {
	t.Helper()
	at := t.TempDir()
	writeClips(t, at, n)
	all := map[string]figures{}
	for _, to := range append([]string{""}, formats...) {
		cmd := exec.Command(os.Args[0], "-test.run=^TestMillionClips$", "-test.timeout=60m")
		cmd.Env = append(os.Environ(), clipsDirEnv+"="+at, clipsToEnv+"="+to)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v: %s", to, err, out)
		}
		var got figures
		if err := json.NewDecoder(strings.NewReader(string(out))).Decode(&got); err != nil {
			t.Fatalf("%s: %v: %s", to, err, out)
		}
		if got.Done != int64(n) {
			t.Errorf("%s: got %d of %d clips", to, got.Done, n)
		}
		if to == "" {
			to = "the job"
		} else if err := os.RemoveAll(filepath.Join(at, to)); err != nil {
			t.Fatal(err)
		}
		all[to] = got
	}
	return all
}

// writeClips makes n files with few different contents, as hard links, and a table that names them.
func writeClips(t *testing.T, at string, n int) {
	t.Helper()
	const perFolder, links = 1000, 10_000
	f, err := os.Create(filepath.Join(at, "clips.csv"))
	jobtest.Must(t, err)
	w := bufio.NewWriter(f)
	fmt.Fprintln(w, "id,path,caption")
	content := ""
	for i := range n {
		if i%links == 0 {
			content = filepath.Join(at, fmt.Sprintf("content-%d.png", i/links))
			var picture bytes.Buffer
			jobtest.Must(t, png.Encode(&picture, image.NewGray(image.Rect(0, 0, 1+i/links, 1))))
			jobtest.Must(t, os.WriteFile(content, picture.Bytes(), 0o644))
		}
		folder := filepath.Join(at, "clips", strconv.Itoa(i/perFolder))
		if i%perFolder == 0 {
			jobtest.Must(t, os.MkdirAll(folder, 0o755))
		}
		path := filepath.Join(folder, fmt.Sprintf("clip-%07d.png", i))
		jobtest.Must(t, os.Link(content, path))
		fmt.Fprintf(w, "clip-%07d,%s,caption number %d\n", i, path, i)
	}
	jobtest.Must(t, w.Flush())
	jobtest.Must(t, f.Close())
}

// clipsChild runs the job, or an export of its table, and prints its memory and time.
func clipsChild(t *testing.T, at, to string) {
	var got figures
	if to == "" {
		j := jobtest.Job{Input: "{media: " + filepath.Join(at, "clips.csv") + "}", Out: filepath.Join(at, "out"),
			Stages: "[small_clip, small_text]",
			Sets: []string{"output.write=[latents, embeddings]", "defaults.num_frames=1", "defaults.height=16",
				"defaults.width=16"}, Specs: smallClip()}
		r := j.MustRun(t)
		got.Rows, got.Done = r.Totals.Rows, r.Totals.Done
	} else {
		s, err := dir.OpenExisting(filepath.Join(at, "out"))
		jobtest.Must(t, err)
		ones := make([]float64, 16)
		for i := range ones {
			ones[i] = 1 + float64(i)
		}
		done, err := export.Run(t.Context(), s, filepath.Join(at, to),
			export.Options{To: to, VAE: &export.Statistics{Mean: ones, Std: ones}})
		jobtest.Must(t, err)
		got.Done = done.Rows
	}
	got.PeakKiB = peakKiB(t)
	jobtest.Must(t, json.NewEncoder(os.Stdout).Encode(got))
}

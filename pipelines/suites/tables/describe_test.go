package tables

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
)

// TestTablesSayWhatTheyAre: the files of tensor tables contain how tensors were made, carried columns have their types, and
// the next job, verify and another run can read latents in bfloat16.
func TestTablesSayWhatTheyAre(t *testing.T) {
	const line = `{"id": %q, "path": %q, "caption": "a %[1]s", "num_frames": 1, "score": %[3]v}` + "\n"
	first := fmt.Sprintf(line, "triangle", jobtest.Clips+"triangle.png", 7)
	table := jobtest.WriteTable(t, "clips.jsonl", first)
	j := jobtest.MediaJob(t, table, "[{encode_vae: {store: bfloat16}}, encode_text]")
	j.MustRun(t)
	for _, name := range []string{"latents", "embeddings"} {
		path := filepath.Join(j.Out, "tables", name, "00000.parquet")
		data, err := os.Open(path)
		jobtest.Must(t, err)
		defer data.Close()
		info, err := data.Stat()
		jobtest.Must(t, err)
		f, err := parquet.OpenFile(data, info.Size())
		jobtest.Must(t, err)
		score, found := f.Schema().Lookup("score")
		if !found || score.Node.Type().Kind() != parquet.Int64 {
			t.Errorf("%s: the column score has the type %v", name, found)
		}
		for key, want := range map[string]string{"latents_mean": "[0,0,0,0]", "posterior": "mean",
			"resize": "resize_crop", "crop": "center", "vae_digest": "", "text_encoder_digest": "", "latents_std": "[5.48"} {
			if got, found := f.Lookup("latentbeam." + key); !found || !strings.HasPrefix(got, want) || got == "" {
				t.Errorf("%s: the metadata %s is %q, want %q", name, key, got, want)
			}
		}
	}
	rows := jobtest.ReadRows[schemas.LatentRow](t, j.Out, "latents")
	if rows[0].VAELatentDType != "bfloat16" || rows[0].LatentSpace != "model" || len(rows[0].VAELatentBytes) != 2*4*8*8 ||
		jobtest.Digest(schemas.WidenBF16(rows[0].VAELatentBytes)) != rows[0].VAELatentSHA256 {
		t.Errorf("got latents of type %s with %d bytes", rows[0].VAELatentDType, len(rows[0].VAELatentBytes))
	}
	// A new row makes the run write the file again, with tensors of the old file, because the ledger no longer has the tensors.
	table = jobtest.WriteTable(t, "clips.jsonl", first+fmt.Sprintf(line, "square", jobtest.Clips+"square.y4m", 8.5))
	j.Input = fmt.Sprintf("{media: %s%s}", table, jobtest.FramesOfRows)
	if r := j.MustRun(t); r.Done != 1 {
		t.Errorf("%d rows were computed, want the new one", r.Done)
	}
	if again := jobtest.ReadRows[schemas.LatentRow](t, j.Out, "latents"); !slices.Equal(again[0].VAELatentBytes, rows[0].VAELatentBytes) {
		t.Error("a latent changed when its file was written again")
	}
	back := jobtest.Job{Input: fmt.Sprintf("{latents: %s}", j.Out+"/tables/latents/*.parquet"), Out: filepath.Join(t.TempDir(), "out"),
		Stages: "[decode_vae, encode_video]", Sets: []string{"output.write=[video]"}}
	if r := back.MustRun(t); r.Done != 2 {
		t.Errorf("%d of 2 latents in bfloat16 were decoded", r.Done)
	}
}

// TestNewDefault: a job without posterior warns if an earlier version sampled the latents of the output.
func TestNewDefault(t *testing.T) {
	j := jobtest.MediaJob(t, jobtest.Clips+"triangle.png", "[{encode_vae: {posterior: sample}}]", "output.write=[latents]", "defaults.num_frames=1")
	j.MustRun(t)
	for list, want := range map[string]bool{"[encode_vae]": true, "[{encode_vae: {posterior: mean}}]": false,
		"[{encode_vae: {posterior: sample}}]": false} {
		j.Stages = list
		if told, _ := toldOfPosterior(t, j); told != want {
			t.Errorf("%s: the plan warns: %t, want the contrary", list, told)
		}
		if want {
			if r, err := j.Run(); fault.ExitCode(err) != fault.ExitUsage || r.Done > 0 {
				t.Errorf("%s: got %d rows done, %v", list, r.Done, err)
			}
		}
	}
}

// TestNewDefaultOfShards: rows of another shard do not count as rows of an earlier version. If there are such rows, each shard
// warns.
func TestNewDefaultOfShards(t *testing.T) {
	for list, want := range map[string]bool{"[encode_vae]": false, "[{encode_vae: {posterior: sample}}]": true} {
		picture, err := filepath.Abs(jobtest.Clips + "triangle.png")
		jobtest.Must(t, err)
		table := "path,width\n"
		for i := range 8 {
			table += fmt.Sprintf("%s,%d\n", picture, 64+16*i)
		}
		j := jobtest.MediaJob(t, jobtest.WriteTable(t, "clips.csv", table), list, "output.write=[latents]", "defaults.num_frames=1",
			"input.columns={width: width}")
		j.Opts.Shards = 2
		j.MustRun(t)
		j.Stages, j.Opts.Shard = "[encode_vae]", 1
		if told, rows := toldOfPosterior(t, j); told != want || rows == 0 {
			t.Errorf("%s, then the other shard: the plan warns: %t, for %d rows", list, told, rows)
		}
	}
}

// toldOfPosterior reports whether a plan warns about the old default, and returns the number of new rows.
func toldOfPosterior(t *testing.T, j jobtest.Job) (told bool, rows int64) {
	t.Helper()
	opened, err := j.Unattached()
	jobtest.Must(t, err)
	defer opened.Close()
	jobtest.Must(t, opened.Peek(t.Context()))
	p, err := opened.Plan(t.Context())
	jobtest.Must(t, err)
	return slices.ContainsFunc(p.Warnings, func(w string) bool {
		return strings.Contains(w, "posterior: sample (under encode_vae)") && strings.Contains(w, "--new-meaning")
	}), p.New
}

package pipelines_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"latentbeam/internal/config"
	"latentbeam/pipelines"
	"latentbeam/schemas"
	"latentbeam/stages/catalog"
)

// TestTablesSayWhatTheyAre: the files of tensor tables say how tensors were made, carried columns have their types, and
// latents in bfloat16 are read by the next job, by verify's digests and by a rerun.
func TestTablesSayWhatTheyAre(t *testing.T) {
	const line = `{"id": %q, "path": %q, "caption": "a %[1]s", "num_frames": 1, "score": %[3]v}` + "\n"
	first := fmt.Sprintf(line, "triangle", clips+"triangle.png", 7)
	table := writeTable(t, "clips.jsonl", first)
	j := encodes(t, table, "[{encode_vae: {store: bfloat16}}, encode_text]")
	j.mustRun(t)
	for _, name := range []string{"latents", "embeddings"} {
		path := filepath.Join(j.out, "tables", name, "00000.parquet")
		data, err := os.Open(path)
		must(t, err)
		defer data.Close()
		info, err := data.Stat()
		must(t, err)
		f, err := parquet.OpenFile(data, info.Size())
		must(t, err)
		score, found := f.Schema().Lookup("score")
		if !found || score.Node.Type().Kind() != parquet.Int64 {
			t.Errorf("%s: score is %v", name, found)
		}
		for key, want := range map[string]string{"latents_mean": "[0,0,0,0]", "posterior": "mean",
			"resize": "resize_crop", "crop": "center", "vae_digest": "", "text_encoder_digest": "", "latents_std": "[5.48"} {
			if got, found := f.Lookup("latentbeam." + key); !found || !strings.HasPrefix(got, want) || got == "" {
				t.Errorf("%s: %s is %q, want %q", name, key, got, want)
			}
		}
	}
	rows := readRows[schemas.LatentRow](t, j.out, "latents")
	if rows[0].VAELatentDType != "bfloat16" || rows[0].LatentSpace != "model" || len(rows[0].VAELatentBytes) != 2*4*8*8 ||
		digest(schemas.WidenBF16(rows[0].VAELatentBytes)) != rows[0].VAELatentSHA256 {
		t.Errorf("%s, %d bytes", rows[0].VAELatentDType, len(rows[0].VAELatentBytes))
	}
	// Another row writes the file anew from the old one, for the ledger has given up its tensors.
	table = writeTable(t, "clips.jsonl", first+fmt.Sprintf(line, "square", clips+"square.y4m", 8.5))
	j.input = fmt.Sprintf("{media: %s}", table)
	if r := j.mustRun(t); r.Done != 1 {
		t.Errorf("%d rows computed for one that is new", r.Done)
	}
	if again := readRows[schemas.LatentRow](t, j.out, "latents"); !slices.Equal(again[0].VAELatentBytes, rows[0].VAELatentBytes) {
		t.Error("a latent is another after its file was written anew")
	}
	back := job{input: fmt.Sprintf("{latents: %s}", j.out+"/tables/latents/*.parquet"), out: filepath.Join(t.TempDir(), "out"),
		stages: "[decode_vae, encode_video]", sets: []string{"output.write=[video]"}}
	if r := back.mustRun(t); r.Done != 2 {
		t.Errorf("%d of 2 latents in bfloat16 were decoded", r.Done)
	}
}

// TestNewDefault: a job that does not say its posterior tells of an output that an earlier version sampled.
func TestNewDefault(t *testing.T) {
	j := encodes(t, clips+"triangle.png", "[{encode_vae: {posterior: sample}}]", "output.write=[latents]", "defaults.num_frames=1")
	j.mustRun(t)
	for list, want := range map[string]int{"[encode_vae]": 1, "[{encode_vae: {posterior: mean}}]": 0, "[{encode_vae: {posterior: sample}}]": 0} {
		text := fmt.Sprintf("version: 1\nmodel: tiny\ninput: %s\nstages: %s\noutput: {path: %q, write: [latents]}\n", j.input, list, j.out)
		cfg, err := config.Parse("job.yaml", text, j.sets)
		must(t, err)
		job, err := pipelines.Open(cfg, pipelines.Options{Specs: catalog.All(), Version: "test"})
		must(t, err)
		must(t, job.Peek(t.Context()))
		p, err := job.Plan(t.Context())
		must(t, err)
		told := slices.ContainsFunc(p.Warnings, func(w string) bool { return strings.Contains(w, "posterior: sample goes on with such rows") })
		if told != (want == 1) {
			t.Errorf("%s: %q", list, p.Warnings)
		}
		job.Close()
	}
}

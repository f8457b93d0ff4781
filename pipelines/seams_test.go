package pipelines_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"latentbeam/schemas"
)

// seamTable has everything that must come through the seams: negative prompts, seeds, sizes, steps,
// guidance, several videos of a row, an image, equal rows, and columns of the user's own.
const seamTable = `id,prompt,negative_prompt,seed,width,num_frames,fps,num_inference_steps,guidance_scale,` +
	`max_sequence_length,num_videos_per_prompt,split,note
a,a red circle moves left,,,,,,,,,,train,
b,a blue square moves up,"blurred, dark",7,,,,,,,,train,"with a comma, and a ""quote"""
c,a green triangle stays still,,,32,,,,1,,,test,日本
d,a white circle moves down,noise,11,,3,24,3,2.5,12,2,test,
e,a yellow square,,,,1,,,0,,,test,image
f,a blue square moves up,"blurred, dark",7,,,,,,,,test,twin of b
g,,,,,,,,,,,train,empty prompt
`

// seams are the jobs that make in three steps what one job makes at once.
func seams(t *testing.T, prompts string, sets ...string) (encode, denoise, decode job) {
	t.Helper()
	dir := t.TempDir()
	step := func(name, input, stages, write string) job {
		return job{input: input, out: filepath.Join(dir, name), stages: stages,
			sets: append([]string{"output.write=[" + write + "]"}, sets...)}
	}
	tables := func(j job, kind string) string {
		return fmt.Sprintf("{%s: %q}", kind, filepath.Join(j.out, "tables", kind, "*.parquet"))
	}
	encode = step("encoded", fmt.Sprintf("{prompts: %q}", prompts), "[encode_text]", "embeddings")
	denoise = step("denoised", tables(encode, "embeddings"), "[denoise]", "latents")
	decode = step("decoded", tables(denoise, "latents"), "[decode_vae, guard, encode_video]", "video")
	return encode, denoise, decode
}

// columns are the rows of a table by id and sample, as they do not depend on how a job is cut: without the
// keys, what is named by them, and the digest of the weights, which are other weights in other jobs.
func columns[T schemas.Row](t *testing.T, rows []T, tensors func(T) string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, row := range rows {
		js, err := json.Marshal(row)
		if err != nil {
			t.Fatal(err)
		}
		var c map[string]any
		if err := json.Unmarshal(js, &c); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"key", "video_path", "poster", "file_name", "weights_digest"} {
			delete(c, name)
		}
		js, err = json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		out[fmt.Sprint(c["id"], "/", c["sample_index"])] = string(js) + tensors(row)
	}
	if len(out) != len(rows) {
		t.Errorf("%d rows with %d names", len(rows), len(out))
	}
	return out
}

func same(t *testing.T, what string, got, want map[string]string) {
	t.Helper()
	if len(want) == 0 || len(got) != len(want) {
		t.Errorf("%s: %d rows, want %d", what, len(got), len(want))
	}
	for name, row := range want {
		if got[name] != row {
			t.Errorf("%s: row %s:\n got %s\nwant %s", what, name, got[name], row)
		}
	}
}

func embeddingColumns(t *testing.T, out string) map[string]string {
	t.Helper()
	return columns(t, readRows[schemas.EmbeddingRow](t, out, "embeddings"), func(r schemas.EmbeddingRow) string {
		return digest(r.TextEmbeddingBytes) + digest(r.NegativeEmbeddingBytes)
	})
}

func latentColumns(t *testing.T, out string) map[string]string {
	t.Helper()
	return columns(t, readRows[schemas.LatentRow](t, out, "latents"), func(r schemas.LatentRow) string {
		return digest(r.VAELatentBytes)
	})
}

func videoColumns(t *testing.T, out string) map[string]string {
	t.Helper()
	return columns(t, readRows[schemas.VideoRow](t, out, "videos"), func(r schemas.VideoRow) string {
		data, err := os.ReadFile(filepath.Join(out, filepath.FromSlash(r.VideoPath)))
		if err != nil {
			t.Error(err)
		}
		return digest(data)
	})
}

// TestSeamsGiveTheSameBytes cuts a job at both seams. Every tensor table, every video and every column about results
// equals that of the whole job.
func TestSeamsGiveTheSameBytes(t *testing.T) {
	whole := newJob(t, seamTable)
	whole.stages = noMarks
	whole.mustRun(t)
	encode, denoise, decode := seams(t, whole.prompts)
	for _, j := range []job{encode, denoise, decode} {
		if r := j.mustRun(t); r.Totals.Done != 8 || r.Totals.Failed > 0 {
			t.Fatalf("%s: %+v", j.stages, r.Totals)
		}
	}
	same(t, "embeddings", embeddingColumns(t, encode.out), embeddingColumns(t, whole.out))
	same(t, "latents", latentColumns(t, denoise.out), latentColumns(t, whole.out))
	same(t, "videos", videoColumns(t, decode.out), videoColumns(t, whole.out))
}

// TestSeamsRunAgain: jobs on tables are rerun like others.
func TestSeamsRunAgain(t *testing.T) {
	prompts := writeTable(t, "prompts.csv", seamTable)
	encode, denoise, decode := seams(t, prompts)
	for _, j := range []job{encode, denoise, decode} {
		j.mustRun(t)
		if r := j.mustRun(t); !r.NothingToDo {
			t.Errorf("%s: a finished job computed %d", j.stages, r.Done)
		}
	}
	encode.prompts = prompts
	encode.rewrite(t, strings.Replace(seamTable, "stays still", "moves right", 1))
	for _, j := range []job{encode, denoise, decode} {
		j.computes(t, 1)
	}
}

// TestSeamDefaults: what the prompt table says comes through the embeddings; what it does not say, the later
// job decides, as long as the text does not depend on it.
func TestSeamDefaults(t *testing.T) {
	whole := newJob(t, "id,prompt,seed,fps,num_videos_per_prompt\na,a red circle,5,24,2\nb,a blue square,,,\n")
	whole.stages = noMarks
	whole.sets = []string{"defaults.seed=9", "defaults.fps=12", "defaults.num_videos_per_prompt=3",
		"defaults.guidance_scale=2", "defaults.num_inference_steps=3", "defaults.negative_prompt=dark"}
	whole.mustRun(t)
	encode, denoise, decode := seams(t, whole.prompts)
	encode.sets = append(encode.sets, "defaults.negative_prompt=dark", "defaults.fps=5", "defaults.seed=1")
	later := append([]string{}, whole.sets[:5]...)
	denoise.sets = append(denoise.sets, append(later, "defaults.negative_prompt=ignored")...)
	decode.sets = append(decode.sets, "defaults.fps=99", "defaults.seed=3", "defaults.guidance_scale=7")
	for _, j := range []job{encode, denoise, decode} {
		j.mustRun(t)
	}
	if n := len(readRows[schemas.EmbeddingRow](t, encode.out, "embeddings")); n != 3 {
		t.Errorf("%d embeddings, want two of a, which asks for two videos, and one of b", n)
	}
	same(t, "latents", latentColumns(t, denoise.out), latentColumns(t, whole.out))
	same(t, "videos", videoColumns(t, decode.out), videoColumns(t, whole.out))
}

// fastVideoText and fastVideo are FastVideo's own schemas (pyarrow_schema_text_only and pyarrow_schema_t2v),
// without a column of ours.
type fastVideoText struct {
	ID      string  `parquet:"id"`
	Bytes   []byte  `parquet:"text_embedding_bytes"`
	Shape   []int64 `parquet:"text_embedding_shape,list"`
	DType   string  `parquet:"text_embedding_dtype"`
	Caption string  `parquet:"caption"`
}

type fastVideo struct {
	ID          string  `parquet:"id"`
	Bytes       []byte  `parquet:"vae_latent_bytes"`
	Shape       []int64 `parquet:"vae_latent_shape,list"`
	DType       string  `parquet:"vae_latent_dtype"`
	TextBytes   []byte  `parquet:"text_embedding_bytes"`
	TextShape   []int64 `parquet:"text_embedding_shape,list"`
	TextDType   string  `parquet:"text_embedding_dtype"`
	FileName    string  `parquet:"file_name"`
	Caption     string  `parquet:"caption"`
	MediaType   string  `parquet:"media_type"`
	Width       int64   `parquet:"width"`
	Height      int64   `parquet:"height"`
	NumFrames   int64   `parquet:"num_frames"`
	DurationSec float64 `parquet:"duration_sec"`
	FPS         float64 `parquet:"fps"`
}

// writeForeign writes a table of another program.
func writeForeign[T any](t *testing.T, rows []T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "foreign.parquet")
	if err := parquet.WriteFile(path, rows); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestForeignTables: tables of FastVideo, which have neither keys nor digests nor our parameters, are read,
// and give what the same tensors give in our own.
func TestForeignTables(t *testing.T) {
	whole := newJob(t, "id,prompt,seed\na,a red circle,\nb,a blue square,\nc,a red circle,\n")
	whole.stages = noMarks
	whole.mustRun(t)
	var texts []fastVideoText
	for _, r := range readRows[schemas.EmbeddingRow](t, whole.out, "embeddings") {
		texts = append(texts, fastVideoText{r.ID, r.TextEmbeddingBytes, r.TextEmbeddingShape, "float32", r.Caption})
	}
	var latents []fastVideo
	for _, r := range readRows[schemas.LatentRow](t, whole.out, "latents") {
		latents = append(latents, fastVideo{ID: r.ID, Bytes: r.VAELatentBytes, Shape: r.VAELatentShape,
			DType: "float32", Caption: r.Caption, MediaType: "video", Width: r.Width, Height: r.Height,
			NumFrames: r.NumFrames, FPS: r.FPS})
	}
	encode, denoise, decode := seams(t, whole.prompts)
	_ = encode
	denoise.input = fmt.Sprintf("{embeddings: %q}", writeForeign(t, texts))
	decode.input = fmt.Sprintf("{latents: %q}", writeForeign(t, latents))
	if r := denoise.mustRun(t); r.Done != 2 || r.Totals.Done != 3 {
		t.Errorf("%d of %d rows computed, want two that differ of three", r.Done, r.Totals.Done)
	}
	got, want := map[string]string{}, map[string]string{}
	for _, r := range readRows[schemas.LatentRow](t, denoise.out, "latents") {
		got[r.ID] = digest(r.VAELatentBytes)
	}
	for _, r := range readRows[schemas.LatentRow](t, whole.out, "latents") {
		want[r.ID] = digest(r.VAELatentBytes)
	}
	same(t, "latents of foreign embeddings", got, want)
	decode.mustRun(t)
	got, want = map[string]string{}, map[string]string{}
	for _, r := range readRows[schemas.VideoRow](t, decode.out, "videos") {
		got[r.ID] = r.VideoSHA256 + fmt.Sprint(r.Width, r.Height, r.NumFrames, r.FPS)
	}
	for _, r := range readRows[schemas.VideoRow](t, whole.out, "videos") {
		want[r.ID] = r.VideoSHA256 + fmt.Sprint(r.Width, r.Height, r.NumFrames, r.FPS)
	}
	same(t, "videos of foreign latents", got, want)
}

// TestForeignTablesThatCannotBeRead say what is missing.
func TestForeignTablesThatCannotBeRead(t *testing.T) {
	type noShape struct {
		ID    string `parquet:"id"`
		Bytes []byte `parquet:"vae_latent_bytes"`
		DType string `parquet:"vae_latent_dtype"`
	}
	_, _, decode := seams(t, "")
	decode.input = fmt.Sprintf("{latents: %q}", writeForeign(t, []noShape{{"a", []byte{1, 2, 3, 4}, "float32"}}))
	if _, err := decode.run(); err == nil || !strings.Contains(err.Error(), `no column "vae_latent_shape"`) {
		t.Errorf("a table without shapes: %v", err)
	}
	row := fastVideo{ID: "a", Bytes: make([]byte, 4*4*2*2), Shape: []int64{4, 1, 2, 2}, DType: "float32",
		Width: 16, Height: 16, NumFrames: 1, FPS: 8}
	for what, c := range map[string]struct {
		change func(*fastVideo)
		want   string
	}{
		"half floats":    {func(r *fastVideo) { r.DType = "float16" }, `dtype "float16": this version reads`},
		"a wrong length": {func(r *fastVideo) { r.Bytes = r.Bytes[1:] }, "needs 64 bytes, there are 63"},
		"no size":        {func(r *fastVideo) { r.Width = 0 }, "width"},
	} {
		bad := row
		c.change(&bad)
		_, _, decode := seams(t, "")
		decode.input = fmt.Sprintf("{latents: %q}", writeForeign(t, []fastVideo{row, bad}))
		r := decode.mustRun(t)
		failures := readRows[schemas.FailureRow](t, decode.out, "failures")
		if r.Totals.Done != 1 || len(failures) != 1 || !strings.Contains(failures[0].Message, c.want) {
			t.Errorf("%s: %d done, failures %+v; want one about %s", what, r.Totals.Done, failures, c.want)
		}
	}
}

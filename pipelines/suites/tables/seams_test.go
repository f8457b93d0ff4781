package tables

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/schemas"
)

// embeddingColumns returns the columns about results of the rows of an embeddings table, one text for each row.
func embeddingColumns(t *testing.T, out string) map[string]string {
	t.Helper()
	return jobtest.Columns(t, jobtest.ReadRows[schemas.EmbeddingRow](t, out, "embeddings"), func(r schemas.EmbeddingRow) string {
		return jobtest.Digest(r.TextEmbeddingBytes) + jobtest.Digest(r.NegativeEmbeddingBytes)
	})
}

// videoColumns returns the digest of the video and the columns about results of each row of a videos table.
func videoColumns(t *testing.T, out string) map[string]string {
	t.Helper()
	return jobtest.Columns(t, jobtest.ReadRows[schemas.VideoRow](t, out, "videos"), func(r schemas.VideoRow) string {
		data, err := os.ReadFile(filepath.Join(out, filepath.FromSlash(r.VideoPath)))
		if err != nil {
			t.Error(err)
		}
		return jobtest.Digest(data)
	})
}

// TestSeamsGiveTheSameBytes splits a job into two at each seam: a table of tensors that one job writes and the next one reads. Every tensor table, every video and every column about results
// is equal to that of the whole job.
func TestSeamsGiveTheSameBytes(t *testing.T) {
	whole := jobtest.NewJob(t, jobtest.SeamTable)
	whole.Stages = jobtest.Unmarked
	whole.MustRun(t)
	encode, denoise, decode := jobtest.Seams(t, whole.Prompts)
	for _, j := range []jobtest.Job{encode, denoise, decode} {
		if r := j.MustRun(t); r.Totals.Done != 8 || r.Totals.Failed > 0 {
			t.Fatalf("%s: got totals %+v", j.Stages, r.Totals)
		}
	}
	jobtest.SameRows(t, "embeddings", embeddingColumns(t, encode.Out), embeddingColumns(t, whole.Out))
	jobtest.SameRows(t, "latents", jobtest.LatentColumns(t, denoise.Out), jobtest.LatentColumns(t, whole.Out))
	jobtest.SameRows(t, "videos", videoColumns(t, decode.Out), videoColumns(t, whole.Out))
}

// TestSeamsRunAgain: jobs on tables can be run again like others.
func TestSeamsRunAgain(t *testing.T) {
	prompts := jobtest.WriteTable(t, "prompts.csv", jobtest.SeamTable)
	encode, denoise, decode := jobtest.Seams(t, prompts)
	for _, j := range []jobtest.Job{encode, denoise, decode} {
		j.MustRun(t)
		if r := j.MustRun(t); !r.NothingToDo {
			t.Errorf("%s: a finished job computed %d rows", j.Stages, r.Done)
		}
	}
	encode.Prompts = prompts
	encode.Rewrite(t, strings.Replace(jobtest.SeamTable, "stays still", "moves right", 1))
	for _, j := range []jobtest.Job{encode, denoise, decode} {
		j.Computes(t, 1)
	}
}

// TestSeamDefaults: values of the prompt table are passed on in the embeddings table. The later job sets values that are
// missing there, unless the text depends on them.
func TestSeamDefaults(t *testing.T) {
	whole := jobtest.NewJob(t, "id,prompt,seed,fps,num_videos_per_prompt\na,a red circle,5,24,2\nb,a blue square,,,\n")
	whole.Stages = jobtest.Unmarked
	whole.Sets = []string{"defaults.seed=9", "defaults.fps=12", "defaults.num_videos_per_prompt=3",
		"defaults.guidance_scale=2", "defaults.num_inference_steps=3", "defaults.negative_prompt=dark"}
	whole.MustRun(t)
	encode, denoise, decode := jobtest.Seams(t, whole.Prompts)
	encode.Sets = append(encode.Sets, "defaults.negative_prompt=dark", "defaults.fps=5", "defaults.seed=1")
	later := append([]string{}, whole.Sets[:5]...)
	denoise.Sets = append(denoise.Sets, append(later, "defaults.negative_prompt=ignored")...)
	decode.Sets = append(decode.Sets, "defaults.fps=99", "defaults.seed=3", "defaults.guidance_scale=7")
	for _, j := range []jobtest.Job{encode, denoise, decode} {
		j.MustRun(t)
	}
	if n := len(jobtest.ReadRows[schemas.EmbeddingRow](t, encode.Out, "embeddings")); n != 3 {
		t.Errorf("got %d embeddings, want two of a, which asks for two videos, and one of b", n)
	}
	jobtest.SameRows(t, "latents", jobtest.LatentColumns(t, denoise.Out), jobtest.LatentColumns(t, whole.Out))
	jobtest.SameRows(t, "videos", videoColumns(t, decode.Out), videoColumns(t, whole.Out))
}

// fastVideoText and fastVideo are FastVideo's schemas (pyarrow_schema_text_only and pyarrow_schema_t2v),
// without columns of this program.
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

// TestForeignTables: tables of FastVideo, which have no keys, digests and parameters, can be read. The results are
// equal to those of a table of this program with the same tensors.
func TestForeignTables(t *testing.T) {
	whole := jobtest.NewJob(t, "id,prompt,seed\na,a red circle,\nb,a blue square,\nc,a red circle,\n")
	whole.Stages = jobtest.Unmarked
	whole.MustRun(t)
	var texts []fastVideoText
	for _, r := range jobtest.ReadRows[schemas.EmbeddingRow](t, whole.Out, "embeddings") {
		texts = append(texts, fastVideoText{r.ID, r.TextEmbeddingBytes, r.TextEmbeddingShape, "float32", r.Caption})
	}
	var latents []fastVideo
	for _, r := range jobtest.ReadRows[schemas.LatentRow](t, whole.Out, "latents") {
		latents = append(latents, fastVideo{ID: r.ID, Bytes: r.VAELatentBytes, Shape: r.VAELatentShape,
			DType: "float32", Caption: r.Caption, MediaType: "video", Width: r.Width, Height: r.Height,
			NumFrames: r.NumFrames, FPS: r.FPS})
	}
	encode, denoise, decode := jobtest.Seams(t, whole.Prompts)
	_ = encode
	denoise.Input = fmt.Sprintf("{embeddings: %q}", writeForeign(t, texts))
	decode.Input = fmt.Sprintf("{latents: %q}", writeForeign(t, latents))
	if r := denoise.MustRun(t); r.Done != 2 || r.Totals.Done != 3 {
		t.Errorf("got %d of %d rows computed, want two, because two of three rows are equal", r.Done, r.Totals.Done)
	}
	got, want := map[string]string{}, map[string]string{}
	for _, r := range jobtest.ReadRows[schemas.LatentRow](t, denoise.Out, "latents") {
		got[r.ID] = jobtest.Digest(r.VAELatentBytes)
	}
	for _, r := range jobtest.ReadRows[schemas.LatentRow](t, whole.Out, "latents") {
		want[r.ID] = jobtest.Digest(r.VAELatentBytes)
	}
	jobtest.SameRows(t, "latents of foreign embeddings", got, want)
	decode.MustRun(t)
	got, want = map[string]string{}, map[string]string{}
	for _, r := range jobtest.ReadRows[schemas.VideoRow](t, decode.Out, "videos") {
		got[r.ID] = r.VideoSHA256 + fmt.Sprint(r.Width, r.Height, r.NumFrames, r.FPS)
	}
	for _, r := range jobtest.ReadRows[schemas.VideoRow](t, whole.Out, "videos") {
		want[r.ID] = r.VideoSHA256 + fmt.Sprint(r.Width, r.Height, r.NumFrames, r.FPS)
	}
	jobtest.SameRows(t, "videos of foreign latents", got, want)
}

// TestForeignTablesThatCannotBeRead: the error about a table that lacks columns or values names them.
func TestForeignTablesThatCannotBeRead(t *testing.T) {
	type noShape struct {
		ID    string `parquet:"id"`
		Bytes []byte `parquet:"vae_latent_bytes"`
		DType string `parquet:"vae_latent_dtype"`
	}
	_, _, decode := jobtest.Seams(t, "")
	decode.Input = fmt.Sprintf("{latents: %q}", writeForeign(t, []noShape{{"a", []byte{1, 2, 3, 4}, "float32"}}))
	if _, err := decode.Run(); err == nil || !strings.Contains(err.Error(), `no column "vae_latent_shape"`) {
		t.Errorf("a table without shapes: got error %v", err)
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
		_, _, decode := jobtest.Seams(t, "")
		decode.Input = fmt.Sprintf("{latents: %q}", writeForeign(t, []fastVideo{row, bad}))
		r := decode.MustRun(t)
		failures := jobtest.ReadRows[schemas.FailureRow](t, decode.Out, "failures")
		if r.Totals.Done != 1 || len(failures) != 1 || !strings.Contains(failures[0].Message, c.want) {
			t.Errorf("%s: got %d rows done, failures %+v; want one about %s", what, r.Totals.Done, failures, c.want)
		}
	}
}

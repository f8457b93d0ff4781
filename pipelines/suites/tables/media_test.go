package tables

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"latentbeam/internal/config"
	"latentbeam/internal/dev/jobtest"
	"latentbeam/internal/engine"
	"latentbeam/internal/media"
	"latentbeam/schemas"
	"latentbeam/stages"
)

// TestPrecompute runs the example with captions and media of the same rows.
func TestPrecompute(t *testing.T) {
	out := t.TempDir()
	t.Chdir("../../..")
	const file = "testdata/media/precompute.yaml"
	text, err := os.ReadFile(file)
	jobtest.Must(t, err)
	cfg, err := config.Parse(file, string(text), []string{"output.path=" + out})
	jobtest.Must(t, err)
	r := jobtest.RunConfig(t, cfg)
	if r.Done != 3 {
		t.Fatalf("got %d rows done", r.Done)
	}
	for name, took := range map[string]time.Duration{"open": r.Phases.Open, "plan": r.Phases.Plan, "rows": r.Phases.Rows, "tables": r.Phases.Tables} {
		if took <= 0 || name != "open" && took >= r.Elapsed {
			t.Errorf("phase %s took %v of %v", name, took, r.Elapsed)
		}
	}
	page, err := os.ReadFile(filepath.Join(out, r.Page))
	jobtest.Must(t, err)
	if !strings.Contains(string(page), r.Phases.String()) {
		t.Errorf("the page does not contain %s", r.Phases)
	}
	i := slices.IndexFunc(r.Stages, func(s engine.StageTime) bool { return s.Stage == "encode_vae" })
	for at, name := range []string{"decode", "resize"} {
		beside := r.Stages[i].Beside()
		if len(beside) != 2 || beside[at].Kernel != name || beside[at].Calls != 33 || beside[at].Busy <= 0 {
			t.Errorf("%s of 33 frames: got %+v", name, beside)
		}
		if !strings.Contains(string(page), name+" for encode_vae") {
			t.Errorf("the page does not contain the time of %s", name)
		}
	}
	texts := jobtest.ReadRows[schemas.EmbeddingRow](t, out, "embeddings")
	latents := jobtest.ReadRows[schemas.LatentRow](t, out, "latents")
	if len(texts) != 3 || len(latents) != 3 {
		t.Fatalf("got %d embeddings and %d latents", len(texts), len(latents))
	}
	for i, row := range latents {
		frames := []int64{16, 16, 1}[i]
		if !slices.Equal(row.VAELatentShape, []int64{4, frames, 8, 8}) || row.LatentSpace != "raw" || row.LatentScale != 1 ||
			row.MediaType != []string{"video", "video", "image"}[i] || row.FPS != 8 || row.VideoFrames != frames ||
			row.FileName != "testdata/media/"+[]string{"disc", "square.y4m", "triangle.png"}[i] {
			t.Errorf("row %d has the latents %+v", i, row)
		}
		if jobtest.Digest(row.TextEmbeddingBytes) != texts[i].TextEmbeddingSHA256 || row.Caption != texts[i].Caption ||
			!slices.Equal(row.TextEmbeddingShape, texts[i].TextEmbeddingShape) || len(row.TextEmbeddingBytes) == 0 {
			t.Errorf("row %d: the text embedding in the table of latents differs from the one in the table of embeddings", i)
		}
	}
}

// TestEncodeDecode: encoding and decoding frames reproduces them, within the accuracy of the small autoencoder.
func TestEncodeDecode(t *testing.T) {
	there := jobtest.MediaJob(t, jobtest.MediaTable(t, ""), "[{encode_vae: {posterior: mean}}]", "output.write=[latents]")
	there.MustRun(t)
	var shown [][]byte
	look := stages.Spec{Name: "look", In: stages.KindFrames, Out: stages.KindFrames, Version: 1,
		New: func(*stages.Model, stages.Options) (stages.Stage, error) {
			return &jobtest.Looker{Look: func(e *stages.Element) {
				if e.Row.ID == "disc" {
					shown = e.Frames.Frames
				}
			}}, nil
		}}
	back := jobtest.Job{Input: fmt.Sprintf("{latents: %s}", there.Out+"/tables/latents/*.parquet"),
		Out: filepath.Join(t.TempDir(), "out"), Stages: "[decode_vae, look, encode_video]",
		Sets: []string{"output.write=[video]"}, Specs: []stages.Spec{look}}
	back.MustRun(t)
	if len(shown) != 16 {
		t.Fatalf("the decoded disc has %d frames", len(shown))
	}
	src, err := media.OpenSource(context.Background(), jobtest.Clips+"disc", media.SourceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	want, sum := make([]byte, 64*64*3), 0.0
	for _, frame := range shown {
		if err := src.Next(want); err != nil {
			t.Fatal(err)
		}
		for i, v := range want {
			sum += math.Pow(float64(v)-float64(frame[i]), 2)
		}
	}
	psnr := 10 * math.Log10(255*255*float64(len(shown)*len(want))/sum)
	t.Logf("PSNR %.1f dB", psnr)
	if psnr < 30 {
		t.Errorf("the decoded disc has a PSNR of %.1f dB, want at least 30", psnr)
	}
}

// TestMediaSameBytes: results do not depend on batches, micro batches, workers and the order of the rows.
func TestMediaSameBytes(t *testing.T) {
	list := "[{encode_vae: {micro_batch_size: %d}}, encode_text]"
	one := jobtest.MediaJob(t, jobtest.MediaTable(t, "again,"+jobtest.Clips+"disc,a red disc,16\n"), fmt.Sprintf(list, 4))
	one.MustRun(t)
	want := jobtest.MustRead(t, one.Out)
	other := jobtest.WriteTable(t, "clips.csv", "num_frames,id,path,caption\n16,again,"+jobtest.Clips+"disc,a red disc\n"+
		"1,triangle,"+jobtest.Clips+"triangle.png,a green triangle\n16,square,"+jobtest.Clips+"square.y4m,a blue square\n"+
		"16,disc,"+jobtest.Clips+"disc,a red circle\n")
	for _, c := range []struct {
		table string
		micro int
		sets  []string
	}{
		{one.Input[len("{media: ") : len(one.Input)-1], 1, []string{"resources.batch_size=1"}},
		{other, 3, []string{"resources.workers=2"}},
	} {
		j := jobtest.MediaJob(t, c.table, fmt.Sprintf(list, c.micro), c.sets...)
		j.MustRun(t)
		got := jobtest.MustRead(t, j.Out)
		delete(want.Files, "index.html") // it has the order of the input
		delete(got.Files, "index.html")
		for _, wrong := range want.Diff(got) {
			t.Errorf("%+v: the output differs: %s", c, wrong)
		}
	}
}

// TestMediaKeys: a moved file retains its result, and a file with new content does not. A caption is part of the key
// only if it is encoded.
func TestMediaKeys(t *testing.T) {
	dir := t.TempDir()
	data, err := os.ReadFile(jobtest.Clips + "square.y4m")
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	run := func(j jobtest.Job, path, caption string) int64 {
		table := jobtest.WriteTable(t, "clips.csv", "path,caption,num_frames\n"+path+","+caption+",2\n")
		j.Input = fmt.Sprintf("{media: %q%s}", table, jobtest.FramesOfRows)
		return j.MustRun(t).Done
	}
	j := jobtest.MediaJob(t, "", "[encode_vae]", "output.write=[latents]")
	j.Sets = append(j.Sets, "stages.encode_vae.posterior=mean")
	first := write("a.y4m", data)
	if n := run(j, first, "a square"); n != 1 {
		t.Fatalf("the first run computed %d rows", n)
	}
	if n := run(j, write("moved.y4m", data), "another caption"); n != 0 {
		t.Errorf("a file that was moved was encoded again")
	}
	data = slices.Clone(data)
	data[len(data)/3] ^= 64
	if n := run(j, write("a.y4m", data), "a square"); n != 1 {
		t.Errorf("another content was not encoded")
	}
	j.Sets = append(j.Sets, "defaults.seed=7")
	if n := run(j, first, "a square"); n != 0 {
		t.Errorf("for another seed, a mean was encoded again, although it does not depend on the seed")
	}
	both := jobtest.MediaJob(t, "", jobtest.EncodeBoth)
	both.Sets = append(both.Sets, "stages.encode_vae.posterior=sample")
	if n := run(both, first, "a square") + run(both, first, "a box"); n != 2 {
		t.Errorf("%d of two captions of one file were encoded", n)
	}
	both.Sets = append(both.Sets, "defaults.seed=7")
	if n := run(both, first, "a square"); n != 1 {
		t.Errorf("for another seed, a sample was not encoded again")
	}
}

// TestBadMedia: an invalid file is a row of the failures table, and the others are encoded.
func TestBadMedia(t *testing.T) {
	dir := t.TempDir()
	path := func(name, text string) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return p
	}
	table := jobtest.MediaTable(t, "missing,nowhere.y4m,a,16\n"+
		"cut,"+path("cut.y4m", "YUV4MPEG2 W64 H64 F8:1\nFRAME\nabc")+",a,16\n"+
		"none,,a,16\n"+
		"url,ftp://example.com/a.mp4,a,16\n"+
		"short,"+jobtest.Clips+"square.y4m,a,17\n")
	j := jobtest.MediaJob(t, table, jobtest.EncodeBoth, "on_error.stop_after=100%")
	r := j.MustRun(t)
	if r.Done != 3 {
		t.Errorf("got %d rows done, want 3", r.Done)
	}
	failures := map[string]string{}
	for _, f := range jobtest.ReadRows[schemas.FailureRow](t, j.Out, "failures") {
		failures[f.ID] = f.Stage + ": " + f.Message
	}
	for id, want := range map[string]string{
		"missing": "read: media: read nowhere.y4m: no such file",
		"cut":     "the last frame is cut off", "none": "read: ", "url": "no address of ftp:// can be read here",
		"short": "encode_vae: read " + jobtest.Clips + "square.y4m: the video has 16 frames at 8 a second, 17 frames",
	} {
		if !strings.Contains(failures[id], want) {
			t.Errorf("row %s failed with %q, want %q", id, failures[id], want)
		}
	}
	if len(failures) != 5 {
		t.Errorf("got failures %v", failures)
	}
	again := j
	if r := again.MustRun(t); r.Done != 0 {
		t.Errorf("a second run computed %d rows", r.Done)
	}
}

// TestMediaFiles: a job can read media without a table. The caption of a file is in a text file beside it.
func TestMediaFiles(t *testing.T) {
	dir := t.TempDir()
	data, err := os.ReadFile(jobtest.Clips + "triangle.png")
	if err != nil {
		t.Fatal(err)
	}
	caption := []byte(" a green triangle\n")
	for name, data := range map[string][]byte{"b.png": data, "a.png": data, "a.txt": caption} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	j := jobtest.MediaJob(t, fmt.Sprintf("%q", dir+"/*"), jobtest.EncodeBoth, "defaults.num_frames=1")
	j.MustRun(t)
	rows := jobtest.ReadRows[schemas.LatentRow](t, j.Out, "latents")
	if len(rows) != 2 || rows[0].ID != "a" || rows[0].Caption != "a green triangle" || rows[1].ID != "b" ||
		rows[1].Caption != "" {
		t.Errorf("got rows %+v", rows)
	}
}

// TestMediaMistakes: a wrong input.media or a list of stages that does not fit media is an error.
func TestMediaMistakes(t *testing.T) {
	for _, c := range []struct{ input, list, want string }{
		{jobtest.WriteTable(t, "a.csv", "prompt\na\n"), jobtest.EncodeBoth, "no column holds the media; the columns are: prompt"},
		{jobtest.WriteTable(t, "a.txt", "caption"), jobtest.EncodeBoth, "captions but no media"},
		{jobtest.Clips + "nothing.y4m", jobtest.EncodeBoth, "no such file"},
		{jobtest.Clips + "clips.csv", "[decode_vae]", `put "encode_vae" between them`},
		{jobtest.Clips + "clips.csv", "[{encode_vae: {posterior: mode}}]", "give sample or mean"},
		{jobtest.Clips + "clips.csv", "[{encode_vae: {micro_batch_size: 0}}]", "micro_batch_size is 0"},
		{jobtest.Clips + "clips.csv", "[{encode_vae: {dtype: fp8}}]", "dtype is \"fp8\""},
	} {
		j := jobtest.MediaJob(t, fmt.Sprintf("%q", c.input), c.list, "output.write=[latents]")
		if _, err := j.Open(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: got error %v, want %q", c.input, c.list, err, c.want)
		}
	}
}

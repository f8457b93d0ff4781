package pipelines_test

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
	"latentbeam/internal/engine"
	"latentbeam/internal/media"
	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/stages"
)

const (
	clips   = "../testdata/media/"
	forward = "[encode_vae, encode_text]"
)

// framesOfRows says that the column num_frames of a table of media is a length of clips, not of the source.
const framesOfRows = ", columns: {num_frames: num_frames}"

// mediaTable writes a table that names the clips of testdata/media, with more lines.
func mediaTable(t *testing.T, more string) string {
	t.Helper()
	return writeTable(t, "clips.csv", "id,path,caption,num_frames\n"+
		"disc,"+clips+"disc,a red circle,16\n"+
		"square,"+clips+"square.y4m,a blue square,16\n"+
		"triangle,"+clips+"triangle.png,a green triangle,1\n"+more)
}

// encodes is a job that encodes media at their own size.
func encodes(t *testing.T, input, list string, sets ...string) job {
	t.Helper()
	size := []string{"defaults.height=64", "defaults.width=64", "output.write=[latents, embeddings]"}
	columns := ""
	if text, err := os.ReadFile(input); err == nil && strings.Contains(string(text[:min(len(text), 200)]), "num_frames") {
		columns = framesOfRows
	}
	return job{input: fmt.Sprintf("{media: %s%s}", input, columns), out: filepath.Join(t.TempDir(), "out"), stages: list,
		sets: append(size, sets...)}
}

// TestPrecompute runs the committed example: captions and media of the same rows.
func TestPrecompute(t *testing.T) {
	out := t.TempDir()
	t.Chdir("..")
	const file = "testdata/media/precompute.yaml"
	text, err := os.ReadFile(file)
	must(t, err)
	cfg, err := config.Parse(file, string(text), []string{"output.path=" + out})
	must(t, err)
	r := runs(t, cfg)
	if r.Done != 3 {
		t.Fatalf("%d done", r.Done)
	}
	for name, took := range map[string]time.Duration{"open": r.Phases.Open, "plan": r.Phases.Plan, "rows": r.Phases.Rows, "tables": r.Phases.Tables} {
		if took <= 0 || name != "open" && took >= r.Elapsed {
			t.Errorf("phase %s took %v of %v", name, took, r.Elapsed)
		}
	}
	page, err := os.ReadFile(filepath.Join(out, r.Page))
	must(t, err)
	if !strings.Contains(string(page), r.Phases.String()) {
		t.Errorf("the page lacks %s", r.Phases)
	}
	i := slices.IndexFunc(r.Stages, func(s engine.StageTime) bool { return s.Stage == "encode_vae" })
	for at, name := range []string{"decode", "resize"} {
		beside := r.Stages[i].Beside()
		if len(beside) != 2 || beside[at].Kernel != name || beside[at].Calls != 33 || beside[at].Busy <= 0 {
			t.Errorf("%s of 33 frames: %+v", name, beside)
		}
		if !strings.Contains(string(page), name+" for encode_vae") {
			t.Errorf("the page lacks the time of %s", name)
		}
	}
	texts := readRows[schemas.EmbeddingRow](t, out, "embeddings")
	latents := readRows[schemas.LatentRow](t, out, "latents")
	if len(texts) != 3 || len(latents) != 3 {
		t.Fatalf("%d embeddings and %d latents", len(texts), len(latents))
	}
	for i, row := range latents {
		frames := []int64{16, 16, 1}[i]
		if !slices.Equal(row.VAELatentShape, []int64{4, frames, 8, 8}) || row.LatentSpace != "raw" || row.LatentScale != 1 ||
			row.MediaType != []string{"video", "video", "image"}[i] || row.FPS != 8 || row.VideoFrames != frames ||
			row.FileName != "testdata/media/"+[]string{"disc", "square.y4m", "triangle.png"}[i] {
			t.Errorf("latents of row %d: %+v", i, row)
		}
		if digest(row.TextEmbeddingBytes) != texts[i].TextEmbeddingSHA256 || row.Caption != texts[i].Caption ||
			!slices.Equal(row.TextEmbeddingShape, texts[i].TextEmbeddingShape) || len(row.TextEmbeddingBytes) == 0 {
			t.Errorf("row %d: the text of the latents is not that of the embeddings", i)
		}
	}
}

// TestEncodeDecode: frames come back as they were, as far as the small autoencoder can show them.
func TestEncodeDecode(t *testing.T) {
	there := encodes(t, mediaTable(t, ""), "[{encode_vae: {posterior: mean}}]", "output.write=[latents]")
	there.mustRun(t)
	var shown [][]byte
	look := stages.Spec{Name: "look", In: stages.KindFrames, Out: stages.KindFrames, Version: 1,
		New: func(*stages.Model, stages.Options) (stages.Stage, error) {
			return &looker{func(e *stages.Element) {
				if e.Row.ID == "disc" {
					shown = e.Frames.Frames
				}
			}}, nil
		}}
	back := job{input: fmt.Sprintf("{latents: %s}", there.out+"/tables/latents/*.parquet"),
		out: filepath.Join(t.TempDir(), "out"), stages: "[decode_vae, look, encode_video]",
		sets: []string{"output.write=[video]"}, specs: []stages.Spec{look}}
	back.mustRun(t)
	if len(shown) != 16 {
		t.Fatalf("%d frames of the disc came back", len(shown))
	}
	src, err := media.OpenSource(context.Background(), clips+"disc", media.SourceOptions{})
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
		t.Errorf("the disc comes back with a PSNR of %.1f dB, want 30", psnr)
	}
}

// looker is a stage that shows elements to a test.
type looker struct{ look func(*stages.Element) }

func (l *looker) Digest() string                              { return "" }
func (l *looker) Capabilities() stages.Capabilities           { return stages.Capabilities{} }
func (l *looker) Check(*schemas.PromptRow) error              { return nil }
func (l *looker) Need(*schemas.PromptRow, int) (int64, error) { return 1, nil }
func (l *looker) Run(_ context.Context, _ kernels.Backend, batch []*stages.Element) error {
	for _, e := range batch {
		l.look(e)
	}
	return nil
}

// TestMediaSameBytes: batches, micro batches, workers and the order of the rows change nothing.
func TestMediaSameBytes(t *testing.T) {
	list := "[{encode_vae: {micro_batch_size: %d}}, encode_text]"
	one := encodes(t, mediaTable(t, "again,"+clips+"disc,a red disc,16\n"), fmt.Sprintf(list, 4))
	one.mustRun(t)
	want := mustRead(t, one.out)
	other := writeTable(t, "clips.csv", "num_frames,id,path,caption\n16,again,"+clips+"disc,a red disc\n"+
		"1,triangle,"+clips+"triangle.png,a green triangle\n16,square,"+clips+"square.y4m,a blue square\n"+
		"16,disc,"+clips+"disc,a red circle\n")
	for _, c := range []struct {
		table string
		micro int
		sets  []string
	}{
		{one.input[len("{media: ") : len(one.input)-1], 1, []string{"resources.batch_size=1"}},
		{other, 3, []string{"resources.workers=2"}},
	} {
		j := encodes(t, c.table, fmt.Sprintf(list, c.micro), c.sets...)
		j.mustRun(t)
		got := mustRead(t, j.out)
		delete(want.files, "index.html") // in the order of the input
		delete(got.files, "index.html")
		for _, wrong := range want.diff(got) {
			t.Errorf("%+v: %s", c, wrong)
		}
	}
}

// TestMediaKeys: a file that is moved keeps its result, one whose content changes loses it; and a caption
// counts only where it is encoded.
func TestMediaKeys(t *testing.T) {
	dir := t.TempDir()
	data, err := os.ReadFile(clips + "square.y4m")
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
	run := func(j job, path, caption string) int64 {
		table := writeTable(t, "clips.csv", "path,caption,num_frames\n"+path+","+caption+",2\n")
		j.input = fmt.Sprintf("{media: %q%s}", table, framesOfRows)
		return j.mustRun(t).Done
	}
	j := encodes(t, "", "[encode_vae]", "output.write=[latents]")
	j.sets = append(j.sets, "stages.encode_vae.posterior=mean")
	first := write("a.y4m", data)
	if n := run(j, first, "a square"); n != 1 {
		t.Fatalf("the first run did %d", n)
	}
	if n := run(j, write("moved.y4m", data), "another caption"); n != 0 {
		t.Errorf("a file that was moved was encoded again")
	}
	data = slices.Clone(data)
	data[len(data)/3] ^= 64
	if n := run(j, write("a.y4m", data), "a square"); n != 1 {
		t.Errorf("another content was not encoded")
	}
	j.sets = append(j.sets, "defaults.seed=7")
	if n := run(j, first, "a square"); n != 0 {
		t.Errorf("a mean was encoded again for another seed")
	}
	both := encodes(t, "", forward)
	both.sets = append(both.sets, "stages.encode_vae.posterior=sample")
	if n := run(both, first, "a square") + run(both, first, "a box"); n != 2 {
		t.Errorf("%d of two captions of one file were encoded", n)
	}
	both.sets = append(both.sets, "defaults.seed=7")
	if n := run(both, first, "a square"); n != 1 {
		t.Errorf("a sample of another seed was not encoded")
	}
}

// TestBadMedia: a bad file is a row of the failures table; the others are encoded.
func TestBadMedia(t *testing.T) {
	dir := t.TempDir()
	path := func(name, text string) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return p
	}
	table := mediaTable(t, "missing,nowhere.y4m,a,16\n"+
		"cut,"+path("cut.y4m", "YUV4MPEG2 W64 H64 F8:1\nFRAME\nabc")+",a,16\n"+
		"none,,a,16\n"+
		"url,ftp://example.com/a.mp4,a,16\n"+
		"short,"+clips+"square.y4m,a,17\n")
	j := encodes(t, table, forward, "on_error.stop_after=100%")
	r := j.mustRun(t)
	if r.Done != 3 {
		t.Errorf("%d done, want 3", r.Done)
	}
	failures := map[string]string{}
	for _, f := range readRows[schemas.FailureRow](t, j.out, "failures") {
		failures[f.ID] = f.Stage + ": " + f.Message
	}
	for id, want := range map[string]string{
		"missing": "read: media: read nowhere.y4m: no such file",
		"cut":     "the last frame is cut off", "none": "read: ", "url": "no address of ftp:// can be read here",
		"short": "encode_vae: read " + clips + "square.y4m: the video has 16 frames at 8 a second, 17 frames",
	} {
		if !strings.Contains(failures[id], want) {
			t.Errorf("%s failed with %q, want %q", id, failures[id], want)
		}
	}
	if len(failures) != 5 {
		t.Errorf("failures: %v", failures)
	}
	again := j
	if r := again.mustRun(t); r.Done != 0 {
		t.Errorf("a second run did %d", r.Done)
	}
}

// TestMediaFiles: files without a table, captions beside them.
func TestMediaFiles(t *testing.T) {
	dir := t.TempDir()
	data, err := os.ReadFile(clips + "triangle.png")
	if err != nil {
		t.Fatal(err)
	}
	caption := []byte(" a green triangle\n")
	for name, data := range map[string][]byte{"b.png": data, "a.png": data, "a.txt": caption} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	j := encodes(t, fmt.Sprintf("%q", dir+"/*"), forward, "defaults.num_frames=1")
	j.mustRun(t)
	rows := readRows[schemas.LatentRow](t, j.out, "latents")
	if len(rows) != 2 || rows[0].ID != "a" || rows[0].Caption != "a green triangle" || rows[1].ID != "b" ||
		rows[1].Caption != "" {
		t.Errorf("rows %+v", rows)
	}
}

func TestMediaMistakes(t *testing.T) {
	for _, c := range []struct{ input, list, want string }{
		{writeTable(t, "a.csv", "prompt\na\n"), forward, "no column holds the media; the columns are: prompt"},
		{writeTable(t, "a.txt", "caption"), forward, "captions but no media"},
		{clips + "nothing.y4m", forward, "no such file"},
		{clips + "clips.csv", "[decode_vae]", `put "encode_vae" between them`},
		{clips + "clips.csv", "[{encode_vae: {posterior: mode}}]", "give sample or mean"},
		{clips + "clips.csv", "[{encode_vae: {micro_batch_size: 0}}]", "micro_batch_size is 0"},
		{clips + "clips.csv", "[{encode_vae: {dtype: fp8}}]", "dtype is \"fp8\""},
	} {
		j := encodes(t, fmt.Sprintf("%q", c.input), c.list, "output.write=[latents]")
		if _, err := j.open(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: error %v does not say %q", c.input, c.list, err, c.want)
		}
	}
}

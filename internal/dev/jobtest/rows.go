package jobtest

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/stages"
)

// Positions of the stage "sick" in a job.
const (
	SickFirst        = "[sick, encode_text, denoise, decode_vae, encode_video]"
	SickAfterText    = "[encode_text, sick, denoise, decode_vae, encode_video]"
	SickAfterLatents = "[encode_text, denoise, sick, decode_vae, encode_video]"
	SickAfterFrames  = "[encode_text, denoise, decode_vae, sick, encode_video]"
	SickLast         = "[encode_text, denoise, decode_vae, encode_video, sick]"
)

// ManyRows returns a table of n rows. Every tenth prompt contains the word poison.
func ManyRows(n int) string {
	var b strings.Builder
	b.WriteString("prompt\n")
	for i := range n {
		word := "good"
		if i%10 == 9 {
			word = "poison"
		}
		fmt.Fprintf(&b, "%s %d\n", word, i)
	}
	return b.String()
}

// WriteTar writes a tar from pairs of a name and a content.
func WriteTar(t *testing.T, path string, members ...string) {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := 0; i < len(members); i += 2 {
		Must(t, w.WriteHeader(&tar.Header{Name: members[i], Mode: 0o644, Size: int64(len(members[i+1]))}))
		_, err := w.Write([]byte(members[i+1]))
		Must(t, err)
	}
	Must(t, w.Close())
	WriteText(t, path, b.String())
}

// WriteText writes a file and the folders above it.
func WriteText(t *testing.T, path, text string) {
	t.Helper()
	Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	Must(t, os.WriteFile(path, []byte(text), 0o644))
}

// ReadFile reads a file.
func ReadFile(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	Must(t, err)
	return data
}

// DiskTable has more rows than a file of a table may have in these tests.
const DiskTable = `id,prompt,negative_prompt
a,a red circle moves left,
b,a blue square moves up,blurred
c,a green triangle stays still,
d,a white circle moves down,
e,a yellow square moves right,
`

// Clips returns the path of testdata/media, relative to the folder of the test.
var Clips = Root() + "/testdata/media/"

// EncodeBoth lists stages that encode media to latents and captions to embeddings.
const EncodeBoth = "[encode_vae, encode_text]"

// FramesOfRows maps the column num_frames of a table of media to the length of clips, not of the source.
const FramesOfRows = ", columns: {num_frames: num_frames}"

// MediaTable writes a table of the clips of testdata/media, followed by the given lines.
func MediaTable(t *testing.T, more string) string {
	t.Helper()
	return WriteTable(t, "clips.csv", "id,path,caption,num_frames\n"+
		"disc,"+Clips+"disc,a red circle,16\n"+
		"square,"+Clips+"square.y4m,a blue square,16\n"+
		"triangle,"+Clips+"triangle.png,a green triangle,1\n"+more)
}

// MediaJob returns a job that encodes media at their own size.
func MediaJob(t *testing.T, input, list string, sets ...string) Job {
	t.Helper()
	size := []string{"defaults.height=64", "defaults.width=64", "output.write=[latents, embeddings]"}
	columns := ""
	if text, err := os.ReadFile(input); err == nil && strings.Contains(string(text[:min(len(text), 200)]), "num_frames") {
		columns = FramesOfRows
	}
	return Job{Input: fmt.Sprintf("{media: %s%s}", input, columns), Out: filepath.Join(t.TempDir(), "out"), Stages: list,
		Sets: append(size, sets...)}
}

// Looker is a stage that shows elements to a test.
type Looker struct{ Look func(*stages.Element) }

// Digest implements stages.Stage.
func (l *Looker) Digest() string { return "" }

// Capabilities implements stages.Stage.
func (l *Looker) Capabilities() stages.Capabilities { return stages.Capabilities{} }

// Check implements stages.Stage.
func (l *Looker) Check(*schemas.PromptRow) error { return nil }

// Need implements stages.Stage.
func (l *Looker) Need(*schemas.PromptRow, int) (int64, error) { return 1, nil }

// Run implements stages.Stage.
func (l *Looker) Run(_ context.Context, _ kernels.Backend, batch []*stages.Element) error {
	for _, e := range batch {
		l.Look(e)
	}
	return nil
}

// SameTable has more rows of one shape than the largest batch of the test, and some rows of two other shapes.
const SameTable = `id,prompt,width,num_frames
a,a red circle moves left,,
b,a blue square moves up,,
c,"a green triangle, which has a much longer prompt than the others have, stays where it is",,
d,,,
e,a yellow circle,32,
f,a white square moves right,,
g,a red square,,1
h,a blue circle moves down,,
i,a yellow square moves up,32,
`

// SeamTable has everything that must be kept between jobs: negative prompts, seeds, sizes, steps, guidance, several videos for a
// row, an image, equal rows, and additional columns.
const SeamTable = `id,prompt,negative_prompt,seed,width,num_frames,fps,num_inference_steps,guidance_scale,` +
	`max_sequence_length,num_videos_per_prompt,split,note
a,a red circle moves left,,,,,,,,,,train,
b,a blue square moves up,"blurred, dark",7,,,,,,,,train,"with a comma, and a ""quote"""
c,a green triangle stays still,,,32,,,,1,,,test,日本
d,a white circle moves down,noise,11,,3,24,3,2.5,12,2,test,
e,a yellow square,,,,1,,,0,,,test,image
f,a blue square moves up,"blurred, dark",7,,,,,,,,test,twin of b
g,,,,,,,,,,,train,empty prompt
`

// Seams returns three jobs that together make what one job makes.
func Seams(t *testing.T, prompts string, sets ...string) (encode, denoise, decode Job) {
	t.Helper()
	dir := t.TempDir()
	step := func(name, input, stages, write string) Job {
		return Job{Input: input, Out: filepath.Join(dir, name), Stages: stages,
			Sets: append([]string{"output.write=[" + write + "]"}, sets...)}
	}
	tables := func(j Job, kind string) string {
		return fmt.Sprintf("{%s: %q}", kind, filepath.Join(j.Out, "tables", kind, "*.parquet"))
	}
	encode = step("encoded", fmt.Sprintf("{prompts: %q}", prompts), "[encode_text]", "embeddings")
	denoise = step("denoised", tables(encode, "embeddings"), "[denoise]", "latents")
	decode = step("decoded", tables(denoise, "latents"), "[decode_vae, guard, encode_video]", "video")
	return encode, denoise, decode
}

// Columns returns the rows of a table by id and sample, without the columns that depend on how the work is divided into jobs: keys,
// names made of keys, and the digest of the weights.
func Columns[T schemas.Row](t *testing.T, rows []T, tensors func(T) string) map[string]string {
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

// SameRows compares rows that Columns returned.
func SameRows(t *testing.T, what string, got, want map[string]string) {
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

// LatentColumns returns the columns of the table of latents, as Columns does, with digests instead of tensors.
func LatentColumns(t *testing.T, out string) map[string]string {
	t.Helper()
	return Columns(t, ReadRows[schemas.LatentRow](t, out, "latents"), func(r schemas.LatentRow) string {
		return Digest(r.VAELatentBytes)
	})
}

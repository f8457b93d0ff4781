package models

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"io"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"latentbeam/internal/config"
	"latentbeam/internal/dev/jobtest"
	"latentbeam/pipelines"
	"latentbeam/pipelines/jobfile"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/catalog"
	"latentbeam/stages/clip"
	"latentbeam/stages/nn/nntest"
	"latentbeam/stages/t5"
	"latentbeam/stages/vae"
	"latentbeam/stages/wan"
	"latentbeam/stages/weights/safetensors"
)

// wanCase is a pipeline of testdata/golden/wan-pipelines.json with its expected latents and pixels.
type wanCase struct {
	Prompt        string
	Negative      *string
	Frames        int
	Height, Width int
	Steps         int
	Guidance      float64
	Guidance2     *float64        `json:"guidance_2"`
	Scheduler     json.RawMessage // this and the next fields are config files of the model
	TextEncoder   json.RawMessage `json:"text_encoder"`
	Transformer   json.RawMessage
	VAE           json.RawMessage
	Index         json.RawMessage
	Shape         []int // shape of the latents
	Latents       []float32
	PixelsShape   []int           `json:"pixels_shape"`
	Pixels        []int           // every 7th byte of the frames
	Tokens        int             // max_sequence_length; 0: not given
	Images        int             // number of images: the first and the last frame
	ImageEncoder  json.RawMessage `json:"image_encoder"`
	Processor     json.RawMessage `json:"image_processor"`
}

func wanCases(t *testing.T) map[string]wanCase { return wanCasesOf(t, "wan-pipelines.json") }

// wanCasesOf returns the cases of a golden file.
func wanCasesOf(t *testing.T, file string) map[string]wanCase {
	t.Helper()
	out := map[string]wanCase{}
	for name, data := range nntest.Golden(t, "../../../testdata/golden/"+file) {
		var c wanCase
		nntest.Decode(t, data, &c)
		out[name] = c
	}
	return out
}

// tensorsOf returns weights with these names and shapes. Their values are hashes of the names, with prefix before them.
func tensorsOf(t *testing.T, shapes map[string][]int, prefix string) []byte {
	t.Helper()
	tensors := map[string]safetensors.Tensor{}
	for name, shape := range shapes {
		values := nntest.Weight(prefix+name, shape...)
		if strings.HasSuffix(name, ".gamma") {
			for i := range values {
				values[i]++
			}
		}
		tensors[name] = nntest.Tensor(values, shape...)
	}
	var out bytes.Buffer
	if err := safetensors.Write(&out, tensors, nil); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// wanDir writes the model of a case as a directory of diffusers.
func wanDir(t *testing.T, c wanCase) string {
	t.Helper()
	dir := t.TempDir()
	text, err := t5.ParseConfig(c.TextEncoder)
	if err != nil {
		t.Fatal(err)
	}
	net, err := wan.ParseConfig(c.Transformer)
	if err != nil {
		t.Fatal(err)
	}
	autoencoder, err := vae.ParseConfig(c.VAE)
	if err != nil {
		t.Fatal(err)
	}
	jobtest.WriteFile(t, dir, "model_index.json", c.Index)
	jobtest.WriteFile(t, dir, "scheduler/scheduler_config.json", c.Scheduler)
	jobtest.WriteFile(t, dir, "text_encoder/config.json", c.TextEncoder)
	jobtest.WriteFile(t, dir, "text_encoder/model.safetensors", tensorsOf(t, nntest.Shapes(t, text, t5.Load), ""))
	jobtest.WriteFile(t, dir, "transformer/config.json", c.Transformer)
	const weights = "diffusion_pytorch_model.safetensors"
	jobtest.WriteFile(t, dir, "transformer/"+weights, tensorsOf(t, nntest.Shapes(t, net, wan.Load), ""))
	if c.Guidance2 != nil || bytes.Contains(c.Index, []byte("boundary_ratio")) {
		jobtest.WriteFile(t, dir, "transformer_2/config.json", c.Transformer)
		jobtest.WriteFile(t, dir, "transformer_2/"+weights, tensorsOf(t, nntest.Shapes(t, net, wan.Load), "second."))
	}
	if c.ImageEncoder != nil {
		encoder, err := clip.ParseConfig(c.ImageEncoder)
		jobtest.Must(t, err)
		jobtest.WriteFile(t, dir, "image_encoder/config.json", c.ImageEncoder)
		jobtest.WriteFile(t, dir, "image_encoder/model.safetensors", tensorsOf(t, nntest.Shapes(t, encoder, clip.Load), ""))
		jobtest.WriteFile(t, dir, "image_processor/preprocessor_config.json", c.Processor)
	}
	jobtest.WriteFile(t, dir, "vae/config.json", c.VAE)
	jobtest.WriteFile(t, dir, "vae/"+weights, tensorsOf(t, nntest.Shapes(t, autoencoder, vae.Load), ""))
	z, err := gzip.NewReader(bytes.NewReader(nntest.Read(t, "../../../stages/t5/sentencepiece/testdata/umt5.model.gz")))
	if err != nil {
		t.Fatal(err)
	}
	pieces, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	jobtest.WriteFile(t, dir, "tokenizer/spiece.model", pieces)
	return dir
}

// wanTable writes a prompt table with the one row of a case and its noise.
func wanTable(t *testing.T, c wanCase) string {
	t.Helper()
	dir := t.TempDir()
	var file bytes.Buffer
	noise := nntest.Tensor(nntest.Hash("noise", 1.7, append([]int{1}, c.Shape...)...), c.Shape...)
	if err := safetensors.Write(&file, map[string]safetensors.Tensor{"noise": noise}, nil); err != nil {
		t.Fatal(err)
	}
	jobtest.WriteFile(t, dir, "noise.safetensors", file.Bytes())
	row := map[string]any{"prompt": c.Prompt, "height": c.Height, "width": c.Width, "num_frames": c.Frames,
		"num_inference_steps": c.Steps, "guidance_scale": c.Guidance, "noise": filepath.Join(dir, "noise.safetensors")}
	if c.Negative != nil {
		row["negative_prompt"] = *c.Negative
		if *c.Negative == "" {
			row["negative_prompt"] = "none"
		}
	}
	if c.Guidance2 != nil {
		row["guidance_scale_2"] = *c.Guidance2
	}
	if c.Tokens > 0 {
		row["max_sequence_length"] = c.Tokens
	}
	if c.Images > 0 {
		row["reference"] = strings.Join(wanImages(t, c), ";")
	}
	line, err := json.Marshal(row)
	if err != nil {
		t.Fatal(err)
	}
	jobtest.WriteFile(t, dir, "prompts.jsonl", append(line, '\n'))
	return filepath.Join(dir, "prompts.jsonl")
}

// wanImages writes the images of a case, of the size of its video, and returns their paths.
func wanImages(t *testing.T, c wanCase) (paths []string) {
	t.Helper()
	dir := t.TempDir()
	for i := range c.Images {
		picture := image.NewRGBA(image.Rect(0, 0, c.Width, c.Height))
		for j, v := range nntest.Hash(fmt.Sprint("image.", i), 1, c.Height, c.Width, 3) {
			picture.Pix[j/3*4+j%3] = byte(min(255, math.Floor((float64(v)+1)*128)))
			picture.Pix[j/3*4+3] = 255
		}
		var file bytes.Buffer
		jobtest.Must(t, png.Encode(&file, picture))
		name := fmt.Sprint(i, ".png")
		jobtest.WriteFile(t, dir, name, file.Bytes())
		paths = append(paths, filepath.Join(dir, name))
	}
	return paths
}

// runYAML runs a job from the text of its YAML.
func runYAML(t *testing.T, text string, sets []string, more ...stages.Spec) (pipelines.Result, error) {
	t.Helper()
	cfg, err := config.Parse("job.yaml", text, sets)
	if err != nil {
		return pipelines.Result{}, err
	}
	j, err := pipelines.Open(cfg, pipelines.Options{Specs: append(catalog.All(), more...), Version: "test",
		Start: jobfile.Start{File: "job.yaml", YAML: text, Sets: sets}})
	if err != nil {
		return pipelines.Result{}, err
	}
	defer j.Close()
	if err := j.Attach(context.Background()); err != nil {
		return pipelines.Result{}, err
	}
	return j.Run(context.Background(), nil)
}

// TestWanPipelines runs whole models of diffusers from prompts and given noise, and compares latents and pixels with those of diffusers'
// WanPipeline.
func TestWanPipelines(t *testing.T) {
	cases := wanCases(t)
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		t.Run(name, func(t *testing.T) { cases[name].compare(t, "denoise") })
	}
}

// TestWanOptions: arguments have the meaning of diffusers' pipeline. guidance_scale_2 is guidance_scale if it is not given. A
// guidance_scale_2 below 1 is used as it is, but a guidance_scale below 1 turns guidance off for both denoisers. Texts are padded to
// max_sequence_length. The sinusoid of the timestep may have any even width.
func TestWanOptions(t *testing.T) {
	for name, c := range wanCasesOf(t, "wan-options.json") {
		t.Run(name, func(t *testing.T) { c.compare(t, "denoise") })
	}
}

// compare runs a case, with these stages between encode_text and decode_vae, and compares it with diffusers.
func (c wanCase) compare(t *testing.T, list string) {
	t.Helper()
	var latents []float32
	var frames []byte
	look := jobtest.Passive("look", func(_ context.Context, batch []*stages.Element) error {
		for _, e := range batch {
			latents = slices.Clone(e.Latents.Data)
			for _, f := range e.Frames.Frames {
				frames = append(frames, f...)
			}
		}
		return nil
	})
	text := fmt.Sprintf("version: 1\nmodel: %q\ninput: {prompts: %q}\noutput: {path: %q, write: [video, latents]}\n"+
		"defaults: {height: %d, width: %d, num_frames: %d}\nstages: [encode_text, %s, decode_vae, look, encode_video]\n",
		wanDir(t, c), wanTable(t, c), t.TempDir(), c.Height, c.Width, c.Frames, list)
	r, err := runYAML(t, text, nil, look)
	if err != nil || r.Done != 1 || len(frames) != c.Frames*c.Height*c.Width*3 {
		t.Fatalf("got %+v, %v and %d bytes of frames", r, err, len(frames))
	}
	diff, largest := nntest.MaxDiff(latents, c.Latents)
	t.Logf("latents differ by %.2g of %.3g", diff, largest)
	if diff > 1e-4*largest {
		t.Errorf("latents differ by %g of %g from diffusers", diff, largest)
	}
	if c.Pixels == nil {
		return
	}
	off := 0
	for i, want := range c.Pixels {
		if d := int(frames[7*i]) - want; d < -1 || d > 1 {
			t.Fatalf("byte %d is %d, diffusers has %d", 7*i, frames[7*i], want)
		} else if d != 0 {
			off++
		}
	}
	t.Logf("%d of %d bytes of frames differ by one", off, len(c.Pixels))
	if 100*off > len(c.Pixels) { // a value between two numbers may be rounded to either
		t.Errorf("%d of %d bytes of frames differ by one, want at most a hundredth", off, len(c.Pixels))
	}
}

// TestModelIsAllAJobNeeds: a job needs only a directory of diffusers and a table. Stages, solver and defaults come from the directory.
// --set sets options of these stages. A job on embeddings or latents starts at the stage that reads them.
func TestModelIsAllAJobNeeds(t *testing.T) {
	c := wanCases(t)["unipc"]
	dir, out := wanDir(t, c), filepath.Join(t.TempDir(), "out")
	table := jobtest.WriteTable(t, "prompts.csv", "prompt,seed\na red ball,1\na cat,2\n")
	text := func(input, out string) string {
		return fmt.Sprintf("version: 1\nmodel: %q\ninput: %s\noutput: {path: %q, write: [video, latents, embeddings]}\n"+
			"defaults: {height: 32, width: 32, num_frames: 5, num_inference_steps: 2}\n", dir, input, out)
	}
	prompts := fmt.Sprintf("{prompts: %q}", table)
	run := func(text string, sets ...string) pipelines.Result {
		t.Helper()
		r, err := runYAML(t, text, sets)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := run(text(prompts, out)); r.Done != 2 || r.Totals.Failed != 0 {
		t.Fatalf("got %+v", r)
	}
	videos, err := filepath.Glob(filepath.Join(out, "videos", "*", "*.mp4"))
	if err != nil || len(videos) == 0 {
		if videos, err = filepath.Glob(filepath.Join(out, "videos", "*.mp4")); err != nil || len(videos) != 2 {
			t.Errorf("the videos are %q, %v", videos, err)
		}
	}
	for _, v := range jobtest.ReadRows[schemas.VideoRow](t, out, "videos") {
		if v.FPS != 16 || *v.GuidanceScale != 5 || v.NumInferenceSteps != 2 {
			t.Errorf("the published default values are not used: %+v", v)
		}
	}
	for _, e := range jobtest.ReadRows[schemas.EmbeddingRow](t, out, "embeddings") {
		if n := e.NegativeEmbeddingShape; len(n) != 2 || n[0] < 30 || n[1] != 32 {
			t.Errorf("the published negative prompt has shape %v", n)
		}
	}
	if r := run(text(prompts, out)); !r.NothingToDo {
		t.Errorf("a rerun computed %d rows, want 0", r.Done)
	}
	if r := run(text(prompts, out), "stages.denoise.flow_shift=3"); r.Done != 2 {
		t.Errorf("with an option by --set, got %+v", r)
	}
	if r := run(text(prompts, out), "stages.denoise.flow_shift=7"); r.Done != 2 {
		t.Errorf("with another shift, got %+v", r)
	}
	again := filepath.Join(t.TempDir(), "again")
	latents := fmt.Sprintf("{latents: %q}", filepath.Join(out, "tables", "latents", "*.parquet"))
	if r := run(text(latents, again), "output.write=[video]"); r.Done != 2 {
		t.Errorf("the job on latents: got %+v", r)
	}
	_, err = runYAML(t, text(prompts, out), []string{"stages.nothing.x=1"})
	nntest.WantError(t, "an option of no stage", err, `there is no stage "nothing" in the list`)
	jobtest.WriteFile(t, dir, "model_index.json", []byte(`{"_class_name": "WanDMDPipeline"}`))
	few := filepath.Join(t.TempDir(), "few")
	r, err := runYAML(t, strings.Replace(text(prompts, few), ", num_inference_steps: 2", "", 1), nil)
	if err != nil || r.Done != 2 {
		t.Errorf("a model of three steps: got %+v, %v", r, err)
	}
	for _, v := range jobtest.ReadRows[schemas.VideoRow](t, few, "videos") {
		if *v.GuidanceScale != 1 || v.NumInferenceSteps != 3 {
			t.Errorf("a model of three steps has the row %+v", v)
		}
	}
	for index, want := range map[string]string{
		`{"_class_name": "WanVACEPipeline"}`: "WanVACEPipeline (video editing), which is not supported yet",
		`{"_class_name": "FluxPipeline"}`:    "FluxPipeline, which is not known",
		`{}`:                                 "names no _class_name",
	} {
		jobtest.WriteFile(t, dir, "model_index.json", []byte(index))
		_, err := runYAML(t, text(prompts, out), nil)
		nntest.WantError(t, index, err, want)
	}
}

// TestDryRunOfWan: a plan says how many steps each of two denoisers computes (26 and 14 of 40 in diffusers), and which prompts are cut.
func TestDryRunOfWan(t *testing.T) {
	c := wanCases(t)["experts_alone"] // flow_shift 12
	table := jobtest.WriteTable(t, "prompts.csv", "prompt,max_sequence_length\na red ball,\na cat walks over the wet grass of a garden,7\n")
	text := fmt.Sprintf("version: 1\nmodel: %q\ninput: {prompts: %q}\noutput: {path: %q}\ndefaults: {height: 32, width: 32, num_frames: 5}\n",
		wanDir(t, c), table, t.TempDir())
	cfg, err := config.Parse("job.yaml", text, []string{"stages.denoise.boundary_ratio=0.875"})
	jobtest.Must(t, err)
	j, err := pipelines.Open(cfg, pipelines.Options{Specs: catalog.All(), Version: "test"})
	jobtest.Must(t, err)
	defer j.Close()
	jobtest.Must(t, j.Peek(t.Context()))
	p, err := j.Plan(t.Context())
	jobtest.Must(t, err)
	remarks := []string{"denoise: of 40 steps transformer makes 26, and transformer_2 makes 14, those below timestep 875"}
	if got := p.Remarks; !slices.Equal(got, remarks) {
		t.Errorf("got the remarks %q, want %q", got, remarks)
	}
	const cut = "1 prompt is longer than max_sequence_length and cut there, the first in prompts.csv:3, which loses "
	if !slices.ContainsFunc(p.Warnings, func(w string) bool { return strings.HasPrefix(w, cut) }) {
		t.Errorf("got the warnings %q, want %q", p.Warnings, cut)
	}
}

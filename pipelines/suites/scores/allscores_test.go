//go:build unix

package scores

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/internal/system/testaid"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages/amt"
	"latentbeam/stages/clip"
	"latentbeam/stages/musiq"
	"latentbeam/stages/nn/nntest"
	"latentbeam/stages/raft"
	"latentbeam/stages/score"
	"latentbeam/stages/vit"
	"latentbeam/stages/weights/safetensors"
)

// scoreWeights writes small weights for every model that measures use, and returns the option `weights`.
func scoreWeights(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name+".safetensors")
		jobtest.Must(t, os.WriteFile(path, data, 0o644))
		return name + ": " + path
	}
	pair, err := clip.ParsePair([]byte(`{"model_type": "clip", "projection_dim": 16, "text_config": {"hidden_size": 64, "intermediate_size": 64,
		"num_hidden_layers": 2, "num_attention_heads": 1}, "vision_config": {"hidden_size": 64, "intermediate_size": 64,
		"num_hidden_layers": 2, "num_attention_heads": 1, "patch_size": 56, "image_size": 224}}`))
	jobtest.Must(t, err)
	dino, err := vit.ParseConfig([]byte(`{"model_type": "vit", "hidden_size": 64, "num_attention_heads": 1, "num_hidden_layers": 2,
		"intermediate_size": 64, "patch_size": 16, "image_size": 224, "hidden_act": "gelu", "layer_norm_eps": 1e-12}`))
	jobtest.Must(t, err)
	clips := nntest.FileBytes(t, nntest.Shapes(t, pair, clip.LoadPair))
	var head bytes.Buffer
	jobtest.Must(t, safetensors.Write(&head, map[string]safetensors.Tensor{"weight": nntest.Tensor(nntest.Hash("head.weight", 40, 1, 16), 1, 16),
		"bias": nntest.Tensor([]float32{5}, 1)}, nil))
	quality := nntest.FileBytes(t, nntest.Shapes(t, musiq.Config{Hidden: 64, Intermediate: 64, Layers: 2}, musiq.Load))
	return strings.Join([]string{write("musiq", quality), write("clip_b32", clips), write("clip_l14", clips), write("aesthetic_head", head.Bytes()),
		write("amt", nntest.FileBytes(t, nntest.Shapes(t, amt.Config{}, amt.Load))), write("dino", nntest.FileBytes(t, nntest.Shapes(t, dino, vit.Load))),
		write("raft", nntest.FileBytes(t, nntest.Shapes(t, raft.Config{}, raft.Load)))}, ", ")
}

// TestAllMeasures: all measures of videos of the built-in model are equal for any number of workers, after a kill, and if they are
// computed later from the finished files.
func TestAllMeasures(t *testing.T) {
	testaid.Long(t, "runs RAFT in five jobs")
	testaid.Needs(t, "ffmpeg")
	scored := fmt.Sprintf("[encode_text, denoise, decode_vae, encode_video, {score: {by: [%s], weights: {%s}}}]",
		strings.Join(score.Names(), ", "), scoreWeights(t))
	prompts := jobtest.WriteTable(t, "p.csv", "id,prompt,style\na,a red circle moves left,oil\nb,a blue square,ink\nc,a green triangle moves up,\nd,a white circle,oil\n")
	sets := []string{"output.write=[video]", "defaults.height=128", "defaults.width=128", "defaults.num_frames=3", "defaults.fps=8",
		"defaults.num_inference_steps=4", "input.carry=[style]", "resources.batch_size=1"}
	in := func(workers int) jobtest.Job {
		return jobtest.Job{Prompts: prompts, Out: filepath.Join(t.TempDir(), "out"), Stages: scored, Sets: append(sets[:len(sets):len(sets)], fmt.Sprintf("resources.workers=%d", workers))}
	}
	one := in(1)
	one.MustRun(t)
	want := jobtest.MustRead(t, one.Out)
	read := columnsRead(t, one.Out)
	for _, name := range score.Names() {
		if name == "black_bars" {
			name = "black_rows"
		}
		if read["measured_"+name] == "" {
			t.Errorf("there is no reading of %s", name)
		}
	}
	same := func(how string, j jobtest.Job) {
		t.Helper()
		for _, wrong := range want.Diff(jobtest.MustRead(t, j.Out)) {
			t.Errorf("%s: the output differs: %s", how, wrong)
		}
		if got := columnsRead(t, j.Out); !equalMaps(got, read) {
			t.Errorf("%s: got readings %v, want %v", how, got, read)
		}
	}
	for workers := 2; workers <= 3; workers++ {
		j := in(workers)
		j.MustRun(t)
		same(fmt.Sprint(workers, " workers"), j)
	}
	j := in(2)
	cmd, text := jobtest.Life{Prompts: prompts, Out: j.Out, Stages: scored, Sets: j.Sets, Point: fault.LedgerCommitAfterPut, Hit: 1}.Start(t)
	if err := cmd.Wait(); !jobtest.Killed(err) {
		t.Fatalf("the job ended with %v before it was killed: %s", err, text)
	}
	if r := j.MustRun(t); r.Done == 0 {
		t.Errorf("the run after the kill computed nothing: %+v", r)
	}
	same("after a kill", j)
	j = in(3)
	j.Stages = strings.Replace(scored, scored[strings.Index(scored, ", {score"):], "]", 1)
	j.MustRun(t)
	j.Stages = scored
	if r := j.MustRun(t); r.Plan.New != 0 || r.Plan.Score != 4 {
		t.Errorf("the plan has %d new rows and %d rows to measure", r.Plan.New, r.Plan.Score)
	}
	if got := columnsRead(t, j.Out); !equalMaps(got, read) {
		t.Errorf("measured later: got readings %v, want %v", got, read)
	}
	videos := filesOf(t, one.Out)
	if later := filesOf(t, j.Out); !equalMaps(later, videos) {
		t.Errorf("the videos are %v, want %v", later, videos)
	}
	t.Logf("%d readings of each of %d videos: one digest %s on 1, 2 and 3 workers, after a kill, and read later", len(read),
		len(jobtest.ReadRows[schemas.VideoRow](t, j.Out, "videos")), jobtest.Digest(fmt.Append(nil, read))[:16])
}

package models

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/internal/table/tabletest"
	"latentbeam/internal/table/write"
	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/nn/nntest"
	"latentbeam/stages/vae"
	"latentbeam/stages/weights/safetensors"
)

// TestRawLatents: encode_vae writes raw latents. decode_vae makes the same videos from them, from tables of earlier releases, in the job
// that encodes them, and on several workers.
func TestRawLatents(t *testing.T) {
	for _, c := range []struct {
		golden, name string
		frames       int
		factor       float64 // latent_scale of earlier releases
	}{
		{"wan-vae", "wan21_17frames", 9, 1}, {"vae", "without_quant_conv", 2, 0.3611}, {"osplan-vae", "wf_9frames", 9, 1},
		{"osplan-vae", "causal_defaults_9frames", 9, 0.18215}, {"open-sora-vae", "vae_v1_2_17frames_fp32", 16, 1},
		{"open-sora-vae", "vae_v1_3_33frames_by5_fp32", 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			var g struct{ Config json.RawMessage }
			nntest.Decode(t, nntest.Golden(t, "../../../testdata/golden/"+c.golden+".json")[c.name], &g)
			cfg, err := vae.ParseConfig(g.Config)
			jobtest.Must(t, err)
			dir := t.TempDir()
			weights := tensorsOf(t, nntest.Shapes(t, cfg, vae.Load), "")
			jobtest.WriteFile(t, dir, "config.json", g.Config)
			jobtest.WriteFile(t, dir, "diffusion_pytorch_model.safetensors", weights)
			table := jobtest.WriteTable(t, "clips.csv", fmt.Sprintf("id,path,num_frames\ndisc,%sdisc,%d\nsquare,%[1]ssquare.y4m,%[2]d\n",
				jobtest.Clips, c.frames))
			run := func(input, list string, write string, sets ...string) string {
				out := filepath.Join(t.TempDir(), "out")
				r, err := runYAML(t, fmt.Sprintf("version: 1\nmodel: {vae: %q}\ninput: {%s}\noutput: {path: %q, write: [%s]}\n"+
					"defaults: {height: 32, width: 32, fps: 8}\nstages: [%s]\n", dir, input, out, write, list), sets)
				if err != nil || r.Done != 2 {
					t.Fatalf("got %+v, %v", r, err)
				}
				return out
			}
			there := run("media: "+table+jobtest.FramesOfRows, "encode_vae", "latents")
			rows := jobtest.ReadRows[schemas.LatentRow](t, there, "latents")
			file, err := safetensors.New(weights)
			jobtest.Must(t, err)
			old := asEarlier(t, nntest.Loaded(t, cpu.New(1), cfg, vae.Load, file), rows, c.factor)
			raw := fmt.Sprintf("latents: %q", there+"/tables/latents/*.parquet")
			want := videosOf(t, run(fmt.Sprintf("latents: %q", old), "decode_vae, encode_video", "video"))
			for what, out := range map[string]string{
				"from the table":     run(raw, "decode_vae, encode_video", "video"),
				"on several workers": run(raw, "decode_vae, encode_video", "video", "resources.workers=3", "resources.threads=1"),
				"in one job":         run("media: "+table+jobtest.FramesOfRows, "encode_vae, decode_vae, encode_video", "video, latents"),
			} {
				if got := videosOf(t, out); !slices.Equal(got, want) {
					t.Errorf("%s: got videos %v, want %v", what, got, want)
				}
			}
		})
	}
}

// asEarlier writes rows as a table of an earlier release, and returns its path.
func asEarlier(t *testing.T, m *vae.Model, rows []schemas.LatentRow, factor float64) string {
	t.Helper()
	be := cpu.New(1)
	for i := range rows {
		r := &rows[i]
		if r.LatentSpace != stages.RawSpace || r.LatentScale != 1 {
			t.Errorf("row %s has latent space %q, scale %g", r.ID, r.LatentSpace, r.LatentScale)
		}
		shape := make([]int, len(r.VAELatentShape))
		for k, d := range r.VAELatentShape {
			shape[k] = int(d)
		}
		z, err := schemas.UnpackFloats(r.VAELatentBytes, shape)
		jobtest.Must(t, err)
		model, err := m.ForDenoiser(be, &stages.Array{Shape: shape, Data: z})
		jobtest.Must(t, err)
		r.VAELatentBytes, r.LatentSpace, r.LatentScale = kernels.F32.Bytes(model.Data), "", factor
		r.VAELatentSHA256 = jobtest.Digest(r.VAELatentBytes)
	}
	path := filepath.Join(t.TempDir(), "old.parquet")
	f, err := os.Create(path)
	jobtest.Must(t, err)
	_, err = write.Write(f, tabletest.Seq(rows), write.Options{})
	jobtest.Must(t, err)
	jobtest.Must(t, f.Close())
	return path
}

// videosOf returns the digests of an output's videos.
func videosOf(t *testing.T, out string) (sums []string) {
	t.Helper()
	for _, r := range jobtest.ReadRows[schemas.VideoRow](t, out, "videos") {
		sums = append(sums, r.VideoSHA256)
	}
	return sums
}

// TestOtherLatents: the table has the latents of the last stage after encode_vae. A stage that does not declare raw latents cannot read
// a table of them.
func TestOtherLatents(t *testing.T) {
	twice := stages.Spec{Name: "twice", In: stages.KindLatents, Out: stages.KindLatents, Version: 1,
		New: func(*stages.Model, stages.Options) (stages.Stage, error) {
			return &jobtest.Looker{Look: func(e *stages.Element) {
				z := stages.NewArray(e.Latents.Shape...)
				for i, v := range e.Latents.Data {
					z.Data[i] = 2 * v
				}
				e.Latents = z
			}}, nil
		}}
	j := jobtest.MediaJob(t, jobtest.MediaTable(t, ""), "[encode_vae, twice]", "output.write=[latents]")
	j.Specs = []stages.Spec{twice}
	j.MustRun(t)
	raw := jobtest.MediaJob(t, jobtest.MediaTable(t, ""), "[encode_vae]", "output.write=[latents]")
	raw.MustRun(t)
	plain := jobtest.ReadRows[schemas.LatentRow](t, raw.Out, "latents")
	for i, r := range jobtest.ReadRows[schemas.LatentRow](t, j.Out, "latents") {
		got, err := schemas.UnpackFloats(r.VAELatentBytes, []int{len(r.VAELatentBytes) / 4})
		jobtest.Must(t, err)
		own, err := schemas.UnpackFloats(plain[i].VAELatentBytes, []int{len(got)})
		jobtest.Must(t, err)
		for k, v := range own {
			if want := 2 * float32(float64(v)*0.18215); got[k] != want {
				t.Fatalf("row %d, value %d: got %g, want %g", i, k, got[k], want)
			}
		}
		if r.LatentSpace != stages.ModelSpace || r.LatentScale != 0.18215 {
			t.Errorf("row %d has latent space %s, scale %g", i, r.LatentSpace, r.LatentScale)
		}
	}
	back := jobtest.Job{Input: fmt.Sprintf("{latents: %s}", raw.Out+"/tables/latents/*.parquet"), Out: filepath.Join(t.TempDir(), "out"),
		Stages: "[twice]", Sets: []string{"output.write=[latents]"}, Specs: []stages.Spec{twice}}
	r, err := back.Run()
	if err != nil || r.Done != 0 || !strings.Contains(r.Totals.First[0].Message,
		"raw latents (latent_space), and twice takes those of denoisers") {
		t.Errorf("a stage that does not declare raw latents: got %d rows done, %v, %v", r.Done, r.Totals.First, err)
	}
}

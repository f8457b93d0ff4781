package models

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/internal/media"
	"latentbeam/kernels/cpu"
	"latentbeam/schemas"
	"latentbeam/stages/nn/nntest"
	"latentbeam/stages/vae"
	"latentbeam/stages/weights/safetensors"
)

// TestPrecomputeOpenSoraPlan: encode_vae gives the latents that the autoencoder of Open-Sora-Plan gives when called directly, and
// decode_vae makes videos of them. One worker and three give the same bytes.
func TestPrecomputeOpenSoraPlan(t *testing.T) {
	for _, name := range []string{"wf_9frames", "causal_defaults_9frames"} {
		t.Run(name, func(t *testing.T) {
			var c struct{ Config json.RawMessage }
			nntest.Decode(t, nntest.Golden(t, "../../../testdata/golden/osplan-vae.json")[name], &c)
			cfg, err := vae.ParseConfig(c.Config)
			jobtest.Must(t, err)
			dir := t.TempDir()
			weights := tensorsOf(t, nntest.Shapes(t, cfg, vae.Load), "")
			jobtest.WriteFile(t, dir, "config.json", c.Config)
			jobtest.WriteFile(t, dir, "diffusion_pytorch_model.safetensors", weights)
			table := jobtest.WriteTable(t, "clips.csv", "id,path,num_frames\ndisc,"+jobtest.Clips+"disc,9\nsquare,"+jobtest.Clips+"square.y4m,13\n"+
				"triangle,"+jobtest.Clips+"triangle.png,1\n")
			const job = "version: 1\nmodel: {vae: %q}\ninput: {%s}\noutput: {path: %q, write: [%s]}\n" +
				"defaults: {height: 32, width: 32, fps: 8}\nstages: [%s]\n"
			there := filepath.Join(t.TempDir(), "out")
			r, err := runYAML(t, fmt.Sprintf(job, dir, "media: "+table+jobtest.FramesOfRows, there, "latents", "encode_vae: {posterior: mean}"), nil)
			if err != nil || r.Done != 3 {
				t.Fatalf("%+v, %v", r, err)
			}
			rows := jobtest.ReadRows[schemas.LatentRow](t, there, "latents")
			if len(rows) != 3 {
				t.Fatalf("the table has %d rows", len(rows))
			}
			shared := filepath.Join(t.TempDir(), "out") // three devices divide each clip
			r, err = runYAML(t, fmt.Sprintf(job, dir, "media: "+table+jobtest.FramesOfRows, shared, "latents", "encode_vae: {posterior: mean}"),
				[]string{"resources.workers=3", "resources.threads=1"})
			if wrong := jobtest.MustRead(t, there).Diff(jobtest.MustRead(t, shared)); err != nil || r.Done != 3 || len(wrong) > 0 {
				t.Errorf("encoded on three workers: got %+v, %v, other results:\n%s", r, err, strings.Join(wrong, "\n"))
			}
			file, err := safetensors.New(weights)
			jobtest.Must(t, err)
			be := cpu.New(2)
			m := nntest.Loaded(t, be, cfg, vae.Load, file)
			for i, row := range rows {
				frames := []int{9, 13, 1}[i]
				if !slices.Equal(row.VAELatentShape, []int64{4, int64(frames+3) / 4, 4, 4}) || row.LatentSpace != "raw" ||
					row.LatentScale != 1 {
					t.Fatalf("row %d has shape %v, latent space %s, scale %g", i, row.VAELatentShape, row.LatentSpace, row.LatentScale)
				}
				want := encoded(t, m, be, jobtest.Clips+[]string{"disc", "square.y4m", "triangle.png"}[i], frames)
				for j, v := range want {
					got := math.Float32frombits(binary.LittleEndian.Uint32(row.VAELatentBytes[4*j:]))
					if got != v {
						t.Fatalf("row %d, value %d: got %g, want %g", i, j, got, v)
					}
				}
			}
			var outputs []jobtest.Output
			for _, workers := range []int{1, 3} {
				back := filepath.Join(t.TempDir(), "out")
				r, err := runYAML(t, fmt.Sprintf(job, dir, fmt.Sprintf("latents: %q", there+"/tables/latents/*.parquet"), back, "video",
					"decode_vae, encode_video"), []string{fmt.Sprint("resources.workers=", workers), "resources.threads=1"})
				if err != nil || r.Done != 3 {
					t.Fatalf("decoded on %d workers: got %+v, %v", workers, r, err)
				}
				outputs = append(outputs, jobtest.MustRead(t, back))
			}
			if wrong := outputs[0].Diff(outputs[1]); len(wrong) > 0 || len(outputs[0].Files) < 3 {
				t.Errorf("the %d files of one worker and of three differ:\n%s", len(outputs[0].Files), strings.Join(wrong, "\n"))
			}
		})
	}
}

// encoded returns the raw latent means of a clip of 32x32 pixels, computed by the autoencoder without a job.
func encoded(t *testing.T, m *vae.Model, be *cpu.Backend, path string, n int) []float32 {
	t.Helper()
	frames, err := media.OpenFrames(t.Context(), path, n, 8, 32, 32, media.Rules{})
	jobtest.Must(t, err)
	defer frames.Close()
	clip := vae.Video{Frames: n, Height: 32, Width: 32, Pixels: func(dst []float32, first, count int) error {
		size := len(dst) / count
		for i := range count {
			if err := frames.At(dst[i*size:(i+1)*size], first+i); err != nil {
				return err
			}
		}
		return nil
	}}
	z, err := m.Encode(be, clip, 1, nil)
	jobtest.Must(t, err)
	return z.Data
}

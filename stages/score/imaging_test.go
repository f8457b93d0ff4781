package score

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"latentbeam/kernels/cpu"
	"latentbeam/stages/musiq"
	"latentbeam/stages/nn/nntest"
	"latentbeam/stages/weights/safetensors"
)

// musiqFile writes the weights of make_imaging.py.
func musiqFile(t *testing.T) string {
	t.Helper()
	tensors := vbenchGolden(t).tensors("musiq.", nntest.Shapes(t, musiq.Config{Hidden: 128, Intermediate: 192, Layers: 2}, musiq.Load))
	tensors["head.weight"] = nntest.Tensor(nntest.Hash("musiq.head.weight", 8, 1, 128), 1, 128)
	tensors["head.bias"] = nntest.Tensor([]float32{50}, 1)
	name := filepath.Join(t.TempDir(), "musiq.safetensors")
	f, err := os.Create(name)
	if err == nil {
		err = safetensors.Write(f, tensors, nil)
	}
	if err != nil || f.Close() != nil {
		t.Fatal(err)
	}
	return name
}

// TestImagingLikeVBench compares the rating of every frame, and the score, with VBench's own code with pyiqa's MUSIQ.
func TestImagingLikeVBench(t *testing.T) {
	var clips []struct {
		scored
		Rates []float32
	}
	nntest.Decode(t, nntest.Golden(t, "../../testdata/golden/vbench-imaging.json")["clips"], &clips)
	o := &options{By: []string{imagingName}, Weights: map[string]string{musiqSPAQ: musiqFile(t)}}
	all, err := openMeasures(o)
	if err != nil {
		t.Fatal(err)
	}
	c, err := openTower(o, musiqSPAQ, musiq.Family(), musiq.ParseConfig, musiq.Load)
	dev := cpu.New(2)
	net := on(t, dev, c, err)
	var scores []float64
	for _, c := range clips {
		views, first, err := imagingViews(c.Height, c.Width)
		if err != nil {
			t.Fatal(err)
		}
		frames := min(c.Frames, 3)
		patches := make([]float32, frames*views.Len())
		for i := range frames {
			image := make([]float32, views.Pixels())
			rgb := c.rgb(i)
			if first != nil {
				first.Interpolate(image, rgb)
			} else {
				for k, v := range rgb {
					image[k] = float32(v)
				}
			}
			views.Patches(patches[i*views.Len():][:views.Len()], image)
		}
		rates := make([]float32, frames)
		func() {
			defer dev.Scope()()
			out, err := net.Rate(dev, patches, views)
			if err == nil {
				err = dev.Download(rates, out)
			}
			if err != nil {
				t.Fatal(err)
			}
		}()
		near(t, c.Kind+": rates", rates, c.Rates[:frames])
		scores = append(scores, c.Imaging)
		if c.Frames > 6 && testing.Short() {
			continue
		}
		got := c.read(t, dev, all)
		v, err := strconv.ParseFloat(got[imagingName], 64)
		if diff := math.Abs(v - c.Imaging); err != nil || !(diff <= 1e-4*c.Imaging) {
			t.Errorf("%s: %q, %v, want %v", c.Kind, got[imagingName], err, c.Imaging)
		}
	}
	if wide := slices.Max(scores) - slices.Min(scores); wide < 1.0/3 {
		t.Errorf("the scores vary by %g alone", wide)
	}
}

package stdit

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/nn/nntest"
)

// halving replaces the autoencoder: it returns the last frames at half the size, and records for which clip.
type halving struct {
	mu    sync.Mutex
	clips []int
}

func (*halving) Digest() string                         { return "halving" }
func (*halving) Need(*schemas.PromptRow) (int64, error) { return 1 << 40, nil }
func (*halving) Check(_ *schemas.PromptRow, n int) error {
	if n == 3 {
		return errors.New("condition_frame_length is 3: not here")
	}
	return nil
}

func (h *halving) Reencode(_ context.Context, _ kernels.Backend, _ *schemas.PromptRow, z *stages.Array,
	clip, length int) (*stages.Array, error) {
	h.mu.Lock()
	h.clips = append(h.clips, clip)
	h.mu.Unlock()
	out := stages.NewArray(z.Shape[0], length, z.Shape[2], z.Shape[3])
	n := z.Shape[2] * z.Shape[3]
	for c := range z.Shape[0] {
		for i, v := range z.Data[(c*z.Shape[1]+z.Shape[1]-length)*n:][:length*n] {
			out.Data[c*length*n+i] = v / 2
		}
	}
	return out, nil
}

// clipOf returns clip number n of so many in the latents of an element.
func clipOf(a *stages.Array, n, clips int) *stages.Array {
	t := a.Shape[1] / clips
	out := stages.NewArray(a.Shape[0], t, a.Shape[2], a.Shape[3])
	size := t * a.Shape[2] * a.Shape[3]
	for c := range a.Shape[0] {
		copy(out.Data[c*size:][:size], a.Data[(c*clips+n)*size:])
	}
	return out
}

// TestClips: the first clip equals a video of one clip, each later clip begins with the end of the clip before, and later
// texts and conditions apply to their clips.
func TestClips(t *testing.T) {
	for _, cfg := range tinyConfigs() {
		frames := map[Version]int{OpenSora11: 10, OpenSora12: 34, OpenSora13: 33}[cfg.Version] // 10 of the latents
		if frames == 0 {
			continue
		}
		s := testStage(t, cfg)
		vae := &halving{}
		s.through(func() (stages.Reencoder, error) { return vae, nil })
		run := func(clips int, change func(*stages.Element)) *stages.Element {
			t.Helper()
			e := batchOf(cfg, 1, frames, 32, 48, 2, 4)[0]
			e.Row.Loop, e.Row.ConditionFrameLength = clips, 5
			if change != nil {
				change(e)
			}
			if err := s.Check(&e.Row); err != nil {
				t.Fatal(err)
			}
			if err := s.Run(t.Context(), cpu.New(1), []*stages.Element{e}); err != nil || e.Failed != nil {
				t.Fatal(err, e.Failed)
			}
			return e
		}
		one, three := run(1, nil), run(3, nil)
		if three.Latents.Shape[1] != 30 || !slices.Equal(clipOf(three.Latents, 0, 3).Data, one.Latents.Data) {
			t.Errorf("%s: latents %v, and the first clip is not the video of one", cfg.name(), three.Latents.Shape)
		}
		through := []int{0, 1} // the autoencoder
		if cfg.Version == OpenSora13 {
			through = nil
		}
		if !slices.Equal(vae.clips, through) || len(three.References) > 0 || three.Row.MaskStrategy != "" {
			t.Errorf("%s: encoded again were clips %v; the element is left with %d references", cfg.name(), vae.clips,
				len(three.References))
		}
		first, second, third := clipOf(three.Latents, 0, 3), clipOf(three.Latents, 1, 3), clipOf(three.Latents, 2, 3)
		for at := range 5 {
			before := frame(first, 5+at)
			for i := range before {
				if cfg.Version == OpenSora13 { // latents are continued unchanged
					before[i] = cfg.DType.Round(before[i])
				} else {
					before[i] /= 2
				}
			}
			if slices.Equal(before, frame(second, at)) == (cfg.Version == OpenSora11) { // IDDPM's last step changes them
				t.Errorf("%s: frame %d of the second clip", cfg.name(), at)
			}
		}
		if slices.Equal(frame(second, 9), frame(third, 9)) {
			t.Errorf("%s: two clips have the same noise", cfg.name())
		}
		text := run(3, func(e *stages.Element) {
			other := &stages.Array{Shape: []int{1, cfg.CaptionChannels},
				Data: nntest.Hash("later", 1, cfg.CaptionChannels)}
			e.Text.Later = []stages.LaterText{{Clip: 2, Embedding: other}}
			e.Row.ConditionFrameEdit = new(float64)
		})
		if !slices.Equal(clipOf(text.Latents, 1, 3).Data, second.Data) ||
			slices.Equal(clipOf(text.Latents, 2, 3).Data, third.Data) {
			t.Errorf("%s: a text from the third clip on does not hold there, or elsewhere too", cfg.name())
		}
	}
}

// TestClipFaults: errors of videos of several clips.
func TestClipFaults(t *testing.T) {
	for _, cfg := range tinyConfigs() {
		s := testStage(t, cfg)
		s.through(func() (stages.Reencoder, error) { return &halving{}, nil })
		row := batchOf(cfg, 1, 34, 32, 48, 2, 4)[0].Row
		row.Loop, row.ConditionFrameLength = 2, 5
		if cfg.Version == OpenSora10 {
			row.NumFrames = 32
			nntest.WantError(t, cfg.name(), s.Check(&row), "1.0 makes videos of one clip")
			continue
		}
		nntest.WantError(t, cfg.name(), s.Check(&row), "")
		if cfg.Version == OpenSora13 {
			checkClipFaults13(t, s, row)
			continue
		}
		if need, err := s.Need(&row, 1); err != nil || need != 1<<40 {
			t.Errorf("%s: a video of several clips needs %d bytes, %v", cfg.name(), need, err)
		}
		for want, n := range map[string]int{"give 1 to": 0, "fewer than the latent frames": 1000, "not here": 3} {
			row.ConditionFrameLength = n
			nntest.WantError(t, cfg.name(), s.Check(&row), want)
		}
		row.ConditionFrameLength = 5
		s.through(func() (stages.Reencoder, error) { return nil, errors.New("no vae/config.json") })
		nntest.WantError(t, cfg.name(), s.Check(&row), "continue through the autoencoder: no vae/config.json")
		if s.LoopDigest() != "" {
			t.Error("a digest of nothing")
		}
		s.through(func() (stages.Reencoder, error) { return &halving{}, nil })
		batch := batchOf(cfg, 2, 34, 32, 48, 2, 4)
		for _, e := range batch {
			e.Row.Loop, e.Row.ConditionFrameLength = 2, 5
		}
		batch[0].Row.Prompt = "|0|a|1|b"
		if err := s.Run(t.Context(), cpu.New(1), batch); err != nil {
			t.Fatal(err)
		}
		if err := failure(batch[0]); err == nil || !strings.Contains(err.Error(), "put encode_text into this job") {
			t.Errorf("%s: texts that are not there: %v", cfg.name(), err)
		}
		digest(t, batch[1:])
	}
}

// checkClipFaults13: clips of 1.3 continue without an autoencoder, but only at the borders of its groups.
func checkClipFaults13(t *testing.T, s *testedStage, row schemas.PromptRow) {
	t.Helper()
	for n, want := range map[int]string{0: "give 1 to 9", 4: "give a multiple of 5", 10: "fewer than the latent frames"} {
		row.ConditionFrameLength = n
		nntest.WantError(t, s.Config.name(), s.Check(&row), want)
	}
	row.ConditionFrameLength = 5
	one, err := s.Need(&row, 1)
	if err != nil || one >= 1<<40 || s.LoopDigest() != "" {
		t.Errorf("%s: %d bytes and %v, digest %q", s.Config.name(), one, err, s.LoopDigest())
	}
	s.images.CondType = "i2v_loop"
	if three, err := s.Need(&row, 1); err != nil || three <= one {
		t.Errorf("%s: %d bytes and %v with three branches, %d with two", s.Config.name(), three, err, one)
	}
}

// TestLatentScale: only latents of the 2D autoencoder are scaled.
func TestLatentScale(t *testing.T) {
	for _, cfg := range tinyConfigs() {
		batch := batchOf(cfg, 1, map[Version]int{OpenSora12: 17, OpenSora13: 17}[cfg.Version], 32, 32, 2, 4)
		if batch[0].Row.NumFrames == 0 {
			batch[0].Row.NumFrames = 2
		}
		if err := testStage(t, cfg).Run(t.Context(), cpu.New(1), batch); err != nil {
			t.Fatal(err)
		}
		want := 1.0
		if cfg.Version == OpenSora10 || cfg.Version == OpenSora11 {
			want = 0.18215
		}
		if batch[0].LatentScale != want {
			t.Errorf("%s: latents are scaled by %g, want %g", cfg.name(), batch[0].LatentScale, want)
		}
	}
}

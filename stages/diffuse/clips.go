package diffuse

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
	"latentbeam/stages/diffuse/condition"
)

// A video of several clips: each clip is sampled separately and starts with the last latent frames of the clip before. These
// frames are decoded and encoded again by the autoencoder; networks with a Conditions.Group use them unchanged.

// checkLoop returns an error for videos of several clips that the stage cannot make.
func (s *stage) checkLoop(row *schemas.PromptRow) error {
	n, group, frames := row.ConditionFrameLength, s.Conditions.Group, s.Config.LatentSize(row).T
	switch {
	case !slices.Contains(s.Params, stages.ParamLoop):
		return fmt.Errorf("loop is %d: %s makes videos of one clip", row.Loop, s.Name)
	case n < 1 || n >= frames:
		return fmt.Errorf("condition_frame_length is %d: give 1 to %d, fewer than the latent frames of a clip",
			n, frames-1)
	case group > 0 && n%group != 0:
		return fmt.Errorf("condition_frame_length is %d: give a multiple of %d, the latent frames that the autoencoder "+
			"of %s decodes together", n, group, s.Name)
	case group > 0:
		return nil
	}
	again, err := s.openReencoder()
	if err != nil {
		return fmt.Errorf("loop is %d: clips continue through the autoencoder: %w", row.Loop, err)
	}
	return again.Check(row, n)
}

// LoopDigest returns the digest of the autoencoder that re-encodes the ends of clips.
func (s *stage) LoopDigest() string {
	if s.Conditions.Group > 0 {
		return ""
	}
	again, err := s.openReencoder()
	if err != nil {
		return "" // Check refuses such rows
	}
	return again.Digest()
}

// clips samples the clips of a batch of videos one after another. An element's Latents get the latents of all clips, joined in
// time.
func (m maker) clips(ctx context.Context, batch []*stages.Element, clips int) error {
	videos := make([]*video, 0, len(batch))
	for _, e := range batch {
		several := strings.HasPrefix(e.Row.Prompt, "|0|") && strings.Count(e.Row.Prompt, "|") > 2
		if several && len(e.Text.Later) == 0 {
			e.Fail("denoise", fault.Row(errors.New("prompt has texts of later clips, which this table "+
				"of embeddings does not hold: make the table again with that loop, or put encode_text into this job")))
			continue
		}
		videos = append(videos, &video{Element: e, strategy: e.Row.MaskStrategy})
	}
	first, err := m.resumeFrom(ctx, videos)
	if err != nil {
		return err
	}
	for clip := first; clip < clips; clip++ {
		var live []*stages.Element
		for _, v := range videos {
			if v.Failed == nil {
				live = append(live, v.clip(clip))
			}
		}
		if len(live) == 0 {
			return nil
		}
		if live, err := m.runImages(ctx, live, clip, clips); err != nil {
			return err
		} else if err := m.clip(ctx, live, clip); err != nil {
			return err
		}
		if err := m.continueAfter(ctx, videos, clip, clip == clips-1); err != nil {
			return err
		}
	}
	for _, v := range videos {
		if v.Failed == nil {
			v.Latents, v.LatentScale = joinFrames(v.done), v.current.LatentScale
		}
	}
	return nil
}

// video is an element whose clips are being made.
type video struct {
	*stages.Element
	strategy    string
	current     *stages.Element // the clip being made
	previousEnd *stages.Array   // last latent frames of the previous clip, as the next clip starts with them
	done        []*stages.Array
}

// clip returns an element for one clip. It has the clip's text, and the end of the previous clip as an additional reference.
func (v *video) clip(n int) *stages.Element {
	one := *v.Element
	if b := v.Begun; n > 0 && (b == nil || b.Clip != n) {
		one.Begun = &stages.Steps{Clip: n, Clips: v.done, Readings: v.Readings}
	}
	one.Text = &stages.Text{Embedding: v.Text.At(n), Negative: v.Text.Negative}
	if v.previousEnd != nil {
		edit := 0.0
		if v.Row.ConditionFrameEdit != nil {
			edit = *v.Row.ConditionFrameEdit
		}
		one.References = append(slices.Clone(v.References), v.previousEnd)
		one.Row.MaskStrategy = condition.Continue(v.strategy, n, len(v.References),
			v.Row.ConditionFrameLength, edit)
	}
	v.current = &one
	return v.current
}

// continueAfter stores the latents of a clip. Unless the clip is the last, it prepares the clip's end for the next one.
func (m maker) continueAfter(ctx context.Context, videos []*video, clip int, last bool) error {
	for _, v := range videos {
		if v.Failed != nil {
			continue
		}
		if v.Failed = v.current.Failed; v.Failed != nil {
			continue
		}
		v.done, v.Readings = append(v.done[:len(v.done):len(v.done)], v.current.Latents), v.current.Readings
		if last {
			continue
		}
		if err := m.prepareNext(ctx, v, clip); err != nil {
			return err
		}
	}
	return nil
}

// prepareNext prepares the end of a clip for the next clip.
func (m maker) prepareNext(ctx context.Context, v *video, clip int) error {
	latents := v.done[clip]
	if m.Conditions.Group > 0 {
		v.previousEnd = m.lastFrames(latents, v.Row.ConditionFrameLength)
		return nil
	}
	again, err := m.openReencoder()
	if err != nil {
		return err
	}
	v.previousEnd, err = again.Reencode(ctx, m.dev, &v.Row, latents, clip, v.Row.ConditionFrameLength)
	return err
}

// resumeFrom returns the first unfinished clip, which is the same for all videos, and prepares the end of the clip before it.
func (m maker) resumeFrom(ctx context.Context, videos []*video) (clip int, err error) {
	for _, v := range videos {
		if v.Begun == nil || v.Begun.Clip == 0 {
			continue
		}
		clip, v.done = v.Begun.Clip, v.Begun.Clips
		if err := m.prepareNext(ctx, v, clip-1); err != nil {
			return 0, err
		}
	}
	return clip, nil
}

// lastFrames returns the last n frames of latents (C, T, H, W), in the type of the network's input.
func (s *stage) lastFrames(z *stages.Array, n int) *stages.Array {
	out := stages.NewArray(z.Shape[0], n, z.Shape[2], z.Shape[3])
	condition.CopyFrames(out, z, 0, z.Shape[1]-n, n)
	for i, v := range out.Data {
		out.Data[i] = s.DType.Round(v)
	}
	return out
}

// joinFrames joins latents (C, T, H, W) in time.
func joinFrames(clips []*stages.Array) *stages.Array {
	shape := slices.Clone(clips[0].Shape)
	shape[1] *= len(clips)
	out := stages.NewArray(shape...)
	for i, clip := range clips {
		condition.CopyFrames(out, clip, i*clip.Shape[1], 0, clip.Shape[1])
	}
	return out
}

package diffuse

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/diffuse/dit"
	"latentbeam/stages/diffuse/sampler"
	"latentbeam/stages/nn"
	"latentbeam/stages/weights"
)

// Spec returns the stage `denoise`: a network of one of the families turns noise into latents that match the text.
//
// openReencoder opens the model's autoencoder for longer videos (vae.OpenReencoder); if it is nil, such videos are refused. solvers are
// the program's own samplers, in addition to this module's.
func Spec(families []dit.Family, solvers []sampler.Solver, openReencoder stages.OpenReencoder) stages.Spec {
	var titles []string
	own := ""
	for _, f := range families {
		titles = append(titles, f.Title())
		if f.Options != "" {
			own += f.Options + ", "
		}
	}
	return stages.Spec{
		Name: "denoise",
		Doc: strings.Join(titles, ", ") + ": text to latents; sampler, cache, dtype, precision: int8, cfg_channel, " + own +
			"sequence_parallel, partition, tp_size, pp_size",
		In:      stages.KindText,
		Out:     stages.KindLatents,
		Version: 1,
		Params: []stages.Param{stages.ParamSeed, stages.ParamHeight, stages.ParamWidth, stages.ParamNumFrames,
			stages.ParamSteps, stages.ParamGuidanceScale, stages.ParamNoise},
		Approximations: dit.Approximations(),
		New: func(m *stages.Model, o stages.Options) (stages.Stage, error) {
			pick := func(config []byte) (dit.Network, error) { return dit.Open(families, solvers, m, config, o) }
			return newStage(m, pick, func() (stages.Reencoder, error) {
				if openReencoder == nil {
					return nil, errors.New("this program has no autoencoder for it")
				}
				return openReencoder(m)
			})
		},
	}
}

// stage is the stage `denoise` with one network.
type stage struct {
	weights.Sharded[dit.Network, loaded]
	dit.Description
	openReencoder func() (stages.Reencoder, error) // opens the Reencoder for the first longer video
	recipe        sampler.Recipe                   // with the job's guided channels
	experts       *experts                         // nil: the model has one denoiser
	rehearsals    *nn.Rehearsals                   // of Config
}

// loaded is a model as weights.Component stores it.
type loaded struct{ dit.Model }

// load makes a model from weights.
func load(net dit.Network, w *weights.Weights) (*loaded, error) {
	m, err := net.Load(w)
	return &loaded{m}, err
}

// newStage opens a model's network. pick makes it from config.json.
func newStage(m *stages.Model, pick func(config []byte) (dit.Network, error), openReencoder func() (stages.Reencoder, error)) (
	*stage, error) {
	c, err := weights.OpenComponent(m, "transformer", pick, load)
	if err != nil {
		return nil, err
	}
	d := c.Config.Describe()
	sharded, err := c.Over(int(d.Options.TPSize), int(d.Options.PPSize), d.Heads, d.Blocks)
	if err != nil {
		return nil, fmt.Errorf("denoise: %w", err)
	}
	s := &stage{Sharded: sharded, Description: d, openReencoder: sync.OnceValues(openReencoder), recipe: d.Recipe,
		rehearsals: &nn.Rehearsals{}}
	s.recipe.GuidedChannels = d.Options.GuidedChannels
	if err := s.openSecond(m, pick); err != nil {
		return nil, fmt.Errorf("denoise: %w", err)
	}
	if d.Options.UsesMagCache() {
		if d.Magnitudes == nil {
			return nil, stages.Errorf("cache", "cache: magcache needs ratios that its authors measured for the model, and there are none for %s: use easycache", d.Name)
		}
		s.Sharded.Pipeline = 1
	}
	return s, nil
}

// Capabilities says what the stage can do beyond Run.
func (s *stage) Capabilities() stages.Capabilities {
	return stages.Capabilities{Params: s.Params, Published: func() schemas.PromptRow { return s.Published },
		Complete: s.complete, Naming: s.Naming, TextLength: s.paddedLength(), Remark: s.remark,
		LatentShape: s.LatentShape, LoopDigest: s.LoopDigest, Cost: s.Cost, Loading: s.Loading(), Group: s.group(),
		Spread: &stages.Spread{Width: s.Width, Run: s.RunSet}}
}

// paddedLength returns Capabilities.TextLength.
func (s *stage) paddedLength() int {
	if s.PadsText {
		return s.TextTokens
	}
	return 0
}

// complete sets the negative prompt of rows with guidance.
func (s *stage) complete(row *schemas.PromptRow) {
	if row.NegativePrompt == "" && s.Guided(row) {
		row.NegativePrompt = s.NoNegative
	}
}

// LatentShape returns the shape of the latents of one clip of the row.
func (s *stage) LatentShape(row *schemas.PromptRow) ([]int, error) {
	return s.Shape(s.Config.LatentSize(row)), nil
}

// Check returns an error for rows that the network cannot process and for impossible numbers of steps.
func (s *stage) Check(row *schemas.PromptRow) error {
	if err := s.Config.Check(row); err != nil {
		return err
	}
	if row.GuidanceScale == nil {
		return fmt.Errorf("guidance_scale is not given and the model has no default: "+
			"%s was published with %g", s.Name, s.recipe.GuidanceScale)
	}
	if row.GuidanceScale2 != nil && s.experts == nil {
		return fmt.Errorf("guidance_scale_2 is %g, but %s has one denoiser: leave it out", *row.GuidanceScale2, s.Name)
	}
	if err := s.checkNoise(row); err != nil {
		return err
	}
	if err := s.checkCondition(row); err != nil {
		return err
	}
	return s.recipe.Check(row.NumInferenceSteps, s.clip(row))
}

// clip returns the values that the schedule may depend on.
func (s *stage) clip(row *schemas.PromptRow) sampler.VideoSize {
	return sampler.VideoSize{Height: row.Height, Width: row.Width, Frames: row.NumFrames,
		BF16: s.DType == kernels.BF16}
}

// Need returns the memory that the network needs for texts of full length.
func (s *stage) Need(row *schemas.PromptRow, n int) (int64, error) {
	switch {
	case s.experts != nil && s.Guided(row):
		n = 2 // the branches of one element at a time
	case s.experts != nil:
		n = 1
	case s.byImages(row) || s.Conditions.Images != nil && row.Loop > 1:
		n = 3 * min(n, max(1, s.Pipeline)) // the branches of one element for each pipeline stage at a time
	case s.Guided(row):
		n *= 2
	}
	need, err := dit.SampleBytes(s.Config, n, s.Config.LatentSize(row), s.TextTokens)
	if s.Options.UsesMagCache() { // the contribution of the blocks for each branch, and the tokens before the blocks for one
		size := s.Config.LatentSize(row)
		t, h, w := s.Patch.Grid(size.T, size.H, size.W)
		need += int64(n+1) * int64(t*h*w) * int64(s.Hidden*s.DType.Size())
	}
	if err != nil || row.Loop <= 1 || s.Conditions.Group > 0 {
		return need, err
	}
	reencoder, err := s.openReencoder()
	if err != nil {
		return need, err
	}
	other, err := reencoder.Need(row)
	return max(need, other), err
}

// checkTexts returns an error for texts that the model does not accept.
func (s *stage) checkTexts(t *stages.Text, row *schemas.PromptRow) error {
	most := s.TextLength(row)
	if err := s.checkText(t.Embedding, most); err != nil || t.Negative == nil {
		return err
	}
	return s.checkText(t.Negative, most)
}

// checkText returns an error for a text of more than most tokens, or of another width.
func (s *stage) checkText(a *stages.Array, most int) error {
	if a == nil {
		return errors.New("the row has no text embedding")
	}
	if len(a.Shape) != 2 || a.Shape[0] < 1 || a.Shape[1] != s.TextWidth {
		return fmt.Errorf("the text embedding has shape %v, the model takes (tokens, %d)",
			a.Shape, s.TextWidth)
	}
	if a.Shape[0] > most {
		return fmt.Errorf("the text has %d tokens, the model takes %d for this row: lower max_sequence_length where the text is encoded",
			a.Shape[0], most)
	}
	return nil
}

package diffuse

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"sync/atomic"
	"time"

	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/cost"
	"latentbeam/stages/diffuse/dit"
	"latentbeam/stages/layout"
	"latentbeam/stages/nn"
	"latentbeam/stages/weights"
)

// A model may have two denoisers: the first computes the steps with much noise, the second the others. A device holds the
// weights of one of them. So a group of rows finishes all steps of the first denoiser before the second is loaded, one element
// at a time. Meanwhile the samplers of finished elements wait; their state is on the host.

// secondExpert is the directory of the second denoiser, in models that have two.
const secondExpert = "transformer_2"

// experts is the second denoiser of a model, with statistics about both.
type experts struct {
	second weights.Sharded[dit.Network, loaded]
	digest string
	loads  atomic.Int64 // number of loads of either denoiser to a device
}

// openSecond opens the second denoiser of a model that has one.
func (s *stage) openSecond(m *stages.Model, pick func(config []byte) (dit.Network, error)) error {
	_, err := m.ReadFile(secondExpert + "/config.json")
	has := !errors.Is(err, fs.ErrNotExist)
	switch {
	case err != nil && has:
		return err
	case !has && s.Boundary == 0:
		return nil
	case !has:
		return fmt.Errorf("model %s has a boundary_ratio and no second denoiser in %s", m.Name, secondExpert)
	case s.Boundary == 0:
		return fmt.Errorf("model %s has a second denoiser in %s and no boundary_ratio in model_index.json that says when it "+
			"takes over: one of them alone would give other videos", m.Name, secondExpert)
	case s.Options.PPSize > 1:
		return stages.Errorf("pp_size", "pp_size is %d: models with two denoisers cannot be split by blocks; give tp_size or "+
			"sequence_parallel", s.Options.PPSize)
	}
	c, err := weights.OpenComponent(m, secondExpert, pick, load)
	if err != nil {
		return err
	}
	if common(c.Config.Describe()) != common(s.Description) {
		return fmt.Errorf("the config.json of transformer and of %s belong to different models", secondExpert)
	}
	if err := c.Check(); err != nil {
		return err
	}
	s.Sharded.Pipeline = 1
	second, err := c.Over(s.Sharded.Tensor, 1, s.Heads, s.Blocks)
	if err != nil {
		return err
	}
	digest := sha256.Sum256([]byte(s.Sharded.Digest() + second.Digest()))
	s.experts = &experts{second: second, digest: hex.EncodeToString(digest[:])}
	return nil
}

// commonShape holds the values that two denoisers of a model must share.
type commonShape struct {
	channels, out, hidden, heads, blocks, textWidth, textTokens int
	patch                                                       nn.Patch
	dtype                                                       kernels.DType
}

func common(d dit.Description) commonShape {
	return commonShape{d.Channels, d.OutChannels, d.Hidden, d.Heads, d.Blocks, d.TextWidth, d.TextTokens, d.Patch, d.DType}
}

// Digest returns a digest of the weights of all denoisers.
func (s *stage) Digest() string {
	if s.experts == nil {
		return s.Sharded.Digest()
	}
	return s.experts.digest
}

// Loading says how weights are loaded. Both denoisers are held in the same way.
func (s *stage) Loading() *stages.Loading {
	l := s.Sharded.Loading()
	if s.experts == nil {
		return l
	}
	first := *l
	l.Hold = func(h cost.Placement) error { return errors.Join(first.Hold(h), s.experts.second.Hold(h)) }
	l.Stream = func(stay int) { first.Stream(stay); s.experts.second.Stream(stay) }
	return l
}

// remark says how many steps of a row each of two denoisers computes.
func (s *stage) remark(row *schemas.PromptRow) string {
	if s.experts == nil {
		return ""
	}
	sampler, err := s.recipe.New(row.NumInferenceSteps, s.clip(row))
	if err != nil {
		return "" // Check refuses the row
	}
	first, all := 0, sampler.Timesteps()
	for _, t := range all {
		if t >= s.Boundary {
			first++
		}
	}
	return fmt.Sprintf("of %d steps transformer makes %d, and %s makes %d, those below timestep %g", len(all), first,
		secondExpert, len(all)-first, s.Boundary)
}

// enter makes room on a device for one of the denoisers and counts the load.
func (s *stage) enter(dev kernels.Backend, expert int) {
	comes, goes := s.Sharded.Component, s.experts.second.Component
	if expert == 1 {
		comes, goes = goes, comes
	}
	goes.Free(dev)
	if !comes.Resident(dev) {
		s.experts.loads.Add(1)
	}
}

// The smallest useful group has so much work that loading both denoisers takes a small part of the time. The constants describe
// a device with 4e14 operations per second and a disk with 1e10 bytes per second. Slower devices need smaller groups.
const (
	operationsOfByte = 4e4
	loadingPart      = 0.05
)

// group returns a function for the smallest useful group; nil if the model has one denoiser.
func (s *stage) group() func(row *schemas.PromptRow) int {
	if s.experts == nil {
		return nil
	}
	return func(row *schemas.PromptRow) int {
		c, err := s.Cost(row)
		if err != nil || c.Work <= 0 {
			return 1
		}
		n := math.Ceil(2 * float64(c.Weights) * operationsOfByte / (loadingPart * c.Work))
		return int(max(1, min(n, layout.MaxBatch)))
	}
}

// runExperts samples the elements of a group.
func (m maker) runExperts(ctx context.Context, batch []*stages.Element, clip int) error {
	var runs []*expertRun
	for _, e := range batch {
		j, err := m.newJob([]*stages.Element{e}, clip)
		if err != nil {
			return err
		}
		if j != nil {
			runs = append(runs, &expertRun{maker: m, sampling: sampling{portion: portion{job: j}, saver: m.newSaver()}})
		}
	}
	defer func() {
		for _, t := range runs {
			if t.end != nil {
				t.end()
			}
		}
	}()
	began := time.Now()
	for expert := range 2 {
		for _, t := range runs {
			if t.delivered {
				continue
			}
			if err := t.runSteps(ctx, expert); err != nil {
				return err
			}
			switch {
			case !t.more:
				if err := t.finish(); err != nil {
					return err
				}
			case t.first():
				t.saver.saveWaiting(t.portion, began)
			}
		}
	}
	return nil
}

// expertRun is one element of a group while both denoisers work on it.
type expertRun struct {
	maker
	sampling
	more      bool // the sampler has asked for an evaluation
	delivered bool // the element has received its latents
}

// runSteps computes the steps of one denoiser.
func (t *expertRun) runSteps(ctx context.Context, expert int) error {
	if expert > 0 && !t.waitsFor(expert) {
		return t.err
	}
	defer t.dev.Scope()()
	t.enter(t.dev, expert)
	t.job.expert = expert
	p, network, err := t.networksOf(t.job)
	if err != nil {
		return err
	}
	if t.network != nil {
		network.evaluations = t.network.evaluations
	}
	t.network = network
	if t.portion.rank != nil {
		p.rank.Steps = t.portion.rank.Steps
	}
	t.portion = p
	if t.cache != nil {
		t.cache.portion, t.cache.network = p, network
	}
	if t.ask == nil {
		if t.saver != nil {
			t.saver.since = time.Now()
		}
		t.step = t.done
		t.start(ctx, t.first())
		t.now, t.more = t.ask()
	}
	for t.waitsFor(expert) {
		if t.answer, err = t.evaluate(ctx); err != nil {
			return err
		}
		t.now, t.more = t.ask()
		t.step++
	}
	return t.err
}

// evaluate computes the evaluation that the sampler has requested.
func (t *expertRun) evaluate(ctx context.Context) ([]float32, error) {
	q := &t.now
	if t.cache != nil {
		return t.cache.evaluate(ctx, q.rows, q.timesteps, q.generated)
	}
	return t.network.evaluate(ctx, t.step, q.rows, q.timesteps, q.generated)
}

// waitsFor reports whether the sampler waits for this denoiser.
func (t *expertRun) waitsFor(expert int) bool {
	return t.more && (t.now.timesteps[0] < t.job.Boundary) == (expert == 1)
}

// finish stores the latents in the element.
func (t *expertRun) finish() error {
	t.delivered = true
	if !t.first() && !t.replicated {
		return nil
	}
	defer t.dev.Scope()()
	return t.maker.deliver(t.portion, t.z, t.network.evaluations)
}

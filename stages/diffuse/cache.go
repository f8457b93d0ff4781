package diffuse

import (
	"context"
	"fmt"
	"iter"
	"math"
	"slices"

	"latentbeam/stages"
	"latentbeam/stages/diffuse/sampler"
)

// easyCache skips evaluations of the network when its prediction is likely to change little. A skipped prediction is the
// network's input plus the difference that the last evaluation added to its input (EasyCache, arXiv:2507.02860, as its code
// does it for Wan 2.1).
//
// The change of the prediction is estimated as the change of the input times the ratio of both at the last two evaluations.
// Estimates are added up until they reach the threshold; then the network is evaluated. The branch of the prompt decides for
// all branches. The first steps with and without guidance are always computed. A sampling has one element, so a decision does
// not depend on other rows. All ranks of a set decide alike, because they decide on the whole latents.
type easyCache struct {
	portion
	network   *networks
	threshold float32
	warmup    int // number of first steps that are always computed; the last step always is

	step        int // current step
	rate        float32
	accumulated float32

	input    []float32                                   // network input of the last step, one branch
	computed []float32                                   // network input at the last evaluation
	outputs  [][]float32                                 // outputs of the branches at the last evaluation, without variances
	spreads  [][]float32                                 // variances of the branches at the last evaluation; nil: the network predicts none
	whole    struct{ input, computed, output []float32 } // values of the first branch for the whole element
	guess    []float32
}

// noRate means that the rate is not known yet.
const noRate = -1

// Names of the tensors that the cache saves with the steps.
const (
	cacheInput    = "cache input"
	cacheComputed = "cache computed"
	cacheOutput   = "cache output %d"
	cacheVariance = "cache variance %d"
	// cacheNumbers holds the rate in the first half of its values and the accumulated change in the second half. The last value
	// is the number of evaluations.
	cacheNumbers = "cache figures"
)

// splitElements splits a job into jobs of one element.
func (j *job) splitElements() (out []*job) {
	for i := range j.batch {
		one := *j
		one.batch, one.plans = j.batch[i:i+1], &plans{}
		if j.masks != nil {
			one.masks = j.masks[i*j.size.T:][:j.size.T]
		}
		out = append(out, &one)
	}
	return out
}

// newEasyCache restores the cache from the state that the sampling resumes from. It returns nil if the job does not use
// easycache.
func newEasyCache(p portion, network *networks, from *sampler.State) *easyCache {
	if !p.Options.UsesEasyCache() {
		return nil
	}
	c := &easyCache{portion: p, network: network, threshold: float32(*p.Options.Cache.Threshold), warmup: *p.Options.Cache.Warmup,
		step: from.Done, rate: noRate}
	if from.Done == 0 {
		return c
	}
	values := map[string][]float32{}
	from.Memory = slices.DeleteFunc(from.Memory, func(m sampler.History) bool {
		known := slices.Contains(c.names(), m.Name)
		if known {
			values[m.Name] = slices.Clone(m.Values)
		}
		return known
	})
	c.input, c.computed = values[cacheInput], values[cacheComputed]
	for i := range p.branches() {
		c.outputs = append(c.outputs, values[fmt.Sprintf(cacheOutput, i)])
		if c.predictsVariances() {
			c.spreads = append(c.spreads, values[fmt.Sprintf(cacheVariance, i)])
		}
	}
	for _, m := range p.batch[0].Begun.Memory {
		switch whole := m.Values.Data; m.Name {
		case cacheInput:
			c.whole.input = whole
		case cacheComputed:
			c.whole.computed = whole
		case fmt.Sprintf(cacheOutput, 0):
			c.whole.output = whole
		case cacheNumbers:
			c.rate, c.accumulated, network.evaluations = whole[0], whole[len(whole)/2], int(whole[len(whole)-1])
		}
	}
	return c
}

// names returns the names of the saved tensors.
func (c *easyCache) names() []string {
	out := []string{cacheInput, cacheComputed, cacheNumbers}
	for i := range c.branches() {
		out = append(out, fmt.Sprintf(cacheOutput, i))
		if c.predictsVariances() {
			out = append(out, fmt.Sprintf(cacheVariance, i))
		}
	}
	return out
}

// predictsVariances reports whether the network also predicts a variance for each value.
func (c *easyCache) predictsVariances() bool { return c.OutChannels != c.Channels }

// remembers reports whether the saved steps hold what the cache needs to resume.
func (c *easyCache) remembers(e *stages.Element) bool {
	for _, name := range c.names() {
		if !slices.ContainsFunc(e.Begun.Memory, func(m stages.Remembered) bool { return m.Name == name }) {
			return false
		}
	}
	return true
}

// memory returns the tensors to save, for this rank's portion.
func (c *easyCache) memory() []sampler.History {
	numbers := c.ownValues(func(*stages.Element) []float32 {
		whole := slices.Repeat([]float32{c.rate}, c.values())
		for i := len(whole) / 2; i < len(whole); i++ {
			whole[i] = c.accumulated
		}
		whole[len(whole)-1] = float32(c.network.evaluations)
		return whole
	})
	out := []sampler.History{{Name: cacheInput, Values: c.input}, {Name: cacheComputed, Values: c.computed}, {Name: cacheNumbers, Values: numbers}}
	for i, o := range c.outputs {
		out = append(out, sampler.History{Name: fmt.Sprintf(cacheOutput, i), Values: o})
	}
	for i, v := range c.spreads {
		out = append(out, sampler.History{Name: fmt.Sprintf(cacheVariance, i), Values: v})
	}
	return out
}

// after returns a callback for the sampler that adds the cache's tensors to a state and calls next.
func (c *easyCache) after(next func(sampler.State) error) func(sampler.State) error {
	if next == nil || c == nil {
		return next
	}
	return func(s sampler.State) error {
		s.Memory = append(slices.Clone(s.Memory), c.memory()...)
		return next(s)
	}
}

// evaluate is the sampler.Model with the cache.
func (c *easyCache) evaluate(ctx context.Context, rows, timesteps []float32, generated []bool) ([]float32, error) {
	step := c.step
	guess, err := c.lookUp(rows)
	if guess != nil || err != nil {
		return guess, err
	}
	out, err := c.network.evaluate(ctx, step, rows, timesteps, generated)
	if err != nil {
		return nil, err
	}
	return out, c.learn(rows, out)
}

// lookUp returns the cached predictions for the current step; nil: the network must compute them.
func (c *easyCache) lookUp(rows []float32) ([]float32, error) {
	n := len(rows) / c.branches()
	x, err := c.gather("cached input", rows[:n], true)
	if err != nil {
		return nil, err
	}
	if c.enters(c.step) { // the other denoiser's difference does not apply to this one
		c.rate, c.accumulated, c.whole.output = noRate, 0, nil
	}
	skip := c.skips(x)
	c.whole.input, c.input = x, append(c.input[:0], rows[:n]...)
	c.step++
	if !skip {
		return nil, nil
	}
	c.guess = c.guess[:0]
	for i, out := range c.outputs {
		for from, to := range c.places(n) {
			for k := from; k < to; k++ {
				c.guess = append(c.guess, rows[i*n+k]+float32(out[k]-c.computed[k]))
			}
			if c.spreads != nil {
				c.guess = append(c.guess, c.spreads[i][from:to]...)
			}
		}
	}
	return c.guess, nil
}

// learn stores the network's output for the rows of the last lookUp.
func (c *easyCache) learn(rows, out []float32) error {
	n := len(rows) / c.branches()
	c.outputs, c.spreads = c.outputs[:0], c.spreads[:0]
	for range c.branches() {
		var predicted, variances []float32
		for from, to := range c.places(n) {
			size := to - from
			predicted = append(predicted, out[:size]...)
			if out = out[size:]; c.predictsVariances() {
				variances, out = append(variances, out[:size]...), out[size:]
			}
		}
		c.outputs = append(c.outputs, predicted)
		if variances != nil {
			c.spreads = append(c.spreads, variances)
		}
	}
	y, err := c.gather("cached output", c.outputs[0], true)
	if err != nil {
		return err
	}
	if c.whole.output != nil {
		c.rate = distance(y, c.whole.output) / distance(c.whole.input, c.whole.computed)
	}
	c.whole.computed, c.whole.output = c.whole.input, y
	c.computed = append(c.computed[:0], rows[:n]...)
	return nil
}

// places yields the start and end of each share's values among the n values of a branch. The network's output has predictions
// and variances share by share.
func (c *easyCache) places(n int) iter.Seq2[int, int] {
	return func(yield func(from, to int) bool) {
		if c.rank == nil || c.len() == 0 {
			yield(0, n)
			return
		}
		from := 0
		for _, s := range c.rank.Shares {
			to := from + s.Len(c.planes())
			if !yield(from, to) {
				return
			}
			from = to
		}
	}
}

// enters reports whether step is the first step of the second denoiser.
func (c *easyCache) enters(step int) bool {
	if c.experts == nil || step == 0 {
		return false
	}
	all := c.sampler.Timesteps()
	return all[step-1] >= c.Boundary && all[step] < c.Boundary
}

// skips decides whether the current step is skipped. x is the whole input of the first branch.
func (c *easyCache) skips(x []float32) bool {
	switch {
	case c.step < c.warmup || c.step >= c.sampler.Steps()-1 || c.network.guidanceChanges(c.step):
		c.accumulated = 0
		return false
	case c.whole.output == nil || c.rate == noRate:
		return false
	}
	c.accumulated += float32(c.rate * float32(distance(x, c.whole.input)/distance(c.whole.output, nil)))
	if c.accumulated < c.threshold {
		return true
	}
	c.accumulated = 0
	return false
}

// distance returns the mean absolute difference of a and b; a nil b means zeros. It sums in a fixed order, in fp64.
func distance(a, b []float32) float32 {
	sum := 0.0
	for i, v := range a {
		if b != nil {
			v -= b[i]
		}
		sum += math.Abs(float64(v))
	}
	return float32(sum / float64(len(a)))
}

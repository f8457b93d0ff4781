package diffuse

import (
	"log/slog"
	"slices"

	"latentbeam/stages"
)

// Rows continue from the steps that an earlier process saved (stages.Steps). Rows of a batch at the same step are sampled
// together; a resumed row and a new row are sampled separately. Results do not depend on that.

// byProgress groups the rows of a batch by their saved progress and preserves their order.
func (s *stage) byProgress(batch []*stages.Element) (groups [][]*stages.Element) {
	type progress struct{ clip, done int }
	at := map[progress]int{}
	for _, e := range batch {
		s.checkBegun(e)
		var p progress
		if e.Begun != nil {
			p = progress{e.Begun.Clip, e.Begun.Done}
		}
		if s.experts != nil { // each element has a sampler of its own
			p.done = 0
		}
		i, known := at[p]
		if !known {
			i, at[p] = len(groups), len(groups)
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], e)
	}
	return groups
}

// checkBegun discards saved steps that do not fit the row. The row then starts from the beginning.
func (s *stage) checkBegun(e *stages.Element) {
	b := e.Begun
	if b == nil {
		return
	}
	want := s.Shape(s.Config.LatentSize(&e.Row))
	fits := b.Clip < max(1, e.Row.Loop) && len(b.Clips) == b.Clip
	for _, a := range b.Clips {
		fits = fits && slices.Equal(a.Shape, want)
	}
	if b.Done > 0 {
		plan, err := s.recipe.New(e.Row.NumInferenceSteps, s.clip(&e.Row))
		fits = fits && err == nil && b.Sampler == plan.Signature() && b.Done < plan.Steps() && slices.Equal(b.Latents.Shape, want)
		j := &job{stage: s, batch: []*stages.Element{e}, guided: s.Guided(&e.Row), sampler: plan}
		if fits && s.Options.UsesEasyCache() {
			c := easyCache{portion: portion{job: j}}
			fits = c.remembers(e)
		}
		if fits && s.Options.UsesMagCache() {
			fits = newNetworks(j).mag.resumable(b.Done)
		}
		for _, m := range b.Memory {
			fits = fits && slices.Equal(m.Values.Shape, want)
		}
	}
	if !fits {
		slog.Warn("the saved steps of a row belong to another sampling: the row starts from the beginning", "row", e.Key)
		e.Begun = nil
	}
}

// doneOf returns the number of finished steps of an element's clip.
func doneOf(e *stages.Element, clip int) int {
	if b := e.Begun; b != nil && b.Clip == clip {
		return b.Done
	}
	return 0
}

package diffuse

import (
	"context"
	"math"
	"sync"
	"time"

	"latentbeam/stages"
	"latentbeam/stages/diffuse/sampler"
)

// leastShare is how many times longer than saving took the work until the next time is: saving costs a hundredth of the
// work at most.
const leastShare = 100

// saver saves the steps of one sampling, as one rank sees it. Nil saves nothing.
type saver struct {
	*stages.Saving
	ctx    context.Context
	writes bool      // on this rank
	since  time.Time // of the last time
	cost   time.Duration
	next   int           // step behind which ranks of a set save; 0: they have not agreed
	kept   int           // steps that were done when it last saved
	last   sampler.State // that it was told
	busy   chan struct{} // closed when what was saved last is kept; nil: nothing was

	one   sync.Mutex // around Save
	saved int        // steps that were done of what was saved last

	mu       sync.Mutex
	newest   []stages.Saved // of the last step, where it is not saved yet
	flushing chan struct{}  // closed when a flush has ended; nil: none is at work
	detach   func() bool    // from Saving.Stopping
}

// newSaver returns what saves the steps of a sampling on this rank.
func (m maker) newSaver(ctx context.Context) *saver {
	if m.saving == nil {
		return nil
	}
	v := &saver{Saving: m.saving, ctx: ctx, writes: m.writes, since: time.Now()}
	if v.Stopping != nil {
		v.detach = context.AfterFunc(v.Stopping, v.flush)
	}
	return v
}

// wait returns when nothing is being saved any more.
func (v *saver) wait() {
	if v == nil {
		return
	}
	if v.busy != nil {
		<-v.busy
	}
	if v.detach != nil {
		v.detach()
	}
	v.mu.Lock()
	flushing := v.flushing
	v.mu.Unlock()
	if flushing != nil {
		<-flushing
	}
}

// stopping reports whether the process is to end soon.
func (v *saver) stopping() bool { return v.Stopping != nil && v.Stopping.Err() != nil }

// retain has the steps of rows at hand for the moment at which the process is told to end.
func (v *saver) retain(rows []stages.Saved) {
	v.mu.Lock()
	v.newest = rows
	v.mu.Unlock()
	if v.stopping() {
		v.flush()
	}
}

// flush saves the newest steps beside the sampling, until there are no newer ones. The end of the job's context does not stop it:
// that may come while the steps are written.
func (v *saver) flush() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.flushing != nil || v.newest == nil {
		return
	}
	flushing := make(chan struct{})
	v.flushing = flushing
	go func() {
		defer close(flushing)
		for {
			v.mu.Lock()
			rows := v.newest
			v.newest = nil
			if rows == nil {
				v.flushing = nil
			}
			v.mu.Unlock()
			if rows == nil {
				return
			}
			v.save(context.WithoutCancel(v.ctx), rows)
		}
	}()
}

// save saves the steps of rows, unless later ones are saved already.
func (v *saver) save(ctx context.Context, rows []stages.Saved) {
	v.one.Lock()
	defer v.one.Unlock()
	if done := rows[0].Done; done > v.saved {
		v.saved = done
		v.Save(ctx, rows)
	}
}

// pause is the work from one time to the next.
func (v *saver) pause() time.Duration {
	if v.Every == 0 {
		return 0
	}
	return max(v.Every, leastShare*v.cost)
}

// after is told the states of a sampler whose latents are z. Ranks save behind the same steps, and the first of them has
// the time.
func (v *saver) after(p portion, z []float32) func(sampler.State) error {
	if v == nil {
		return nil
	}
	return func(s sampler.State) error {
		v.last = s
		if p.rank == nil && v.Stopping != nil {
			whole, memory, err := v.gather(p, z)
			if err != nil {
				return err
			}
			v.retain(v.rows(p, whole, memory))
			if v.stopping() {
				return nil
			}
		}
		took := time.Since(v.since)
		switch {
		case p.rank == nil && took < v.pause():
			return nil
		case p.rank == nil || v.Every == 0:
			return v.saveLast(p, z)
		case v.next == 0:
			return v.agree(p, took)
		case s.Done < v.next:
			return nil
		}
		steps := s.Done - max(v.kept, p.done)
		if err := v.saveLast(p, z); err != nil {
			return err
		}
		return v.agree(p, took/time.Duration(steps))
	}
}

// pauses keeps the last state of a sampling that stands still until others have come as far, where all of them together
// have worked long enough since they began.
func (v *saver) pauses(p portion, z []float32, began time.Time) error {
	if v == nil || v.last.Done == 0 || v.last.Done == v.kept {
		return nil
	}
	due := float32(0)
	if v.Every > 0 && time.Since(began) >= v.pause() {
		due = 1
	}
	if due, err := p.broadcast("pause", due); err != nil || due == 0 {
		return err
	}
	return v.saveLast(p, z)
}

// agree lets the first rank say behind which step all save next, where a step takes so long.
func (v *saver) agree(p portion, step time.Duration) error {
	steps := math.Ceil(float64(v.pause()) / float64(max(1, step)))
	steps = min(max(steps, 1), float64(p.sampler.Steps()))
	value, err := p.broadcast("next saving", float32(steps))
	v.next = v.last.Done + int(value)
	return err
}

// saveLast gathers the last state of a sampling and has it saved beside the steps that follow.
func (v *saver) saveLast(p portion, z []float32) error {
	began := time.Now()
	whole, memory, err := v.gather(p, z)
	if err != nil {
		return err
	}
	if v.kept = v.last.Done; !v.writes {
		return nil
	}
	if v.busy != nil {
		<-v.busy
	}
	rows := v.rows(p, whole, memory)
	busy := make(chan struct{})
	v.busy = busy
	go func() {
		defer close(busy)
		v.save(v.ctx, rows)
	}()
	v.since = time.Now()
	v.cost = v.since.Sub(began)
	return nil
}

// gather returns copies of the latents and of what the sampler remembers, whole.
func (v *saver) gather(p portion, z []float32) (whole []float32, memory [][]float32, err error) {
	whole, err = p.gather("saved latents", z, false)
	memory = make([][]float32, len(v.last.Memory))
	for i := range memory {
		if err == nil {
			memory[i], err = p.gather("saved memory", v.last.Memory[i].Values, false)
		}
	}
	return whole, memory, err
}

// rows are the last steps of the rows of a batch.
func (v *saver) rows(p portion, whole []float32, memory [][]float32) []stages.Saved {
	rows := make([]stages.Saved, len(p.batch))
	for i, e := range p.batch {
		rows[i] = stages.Saved{Key: e.Key, Steps: stages.Steps{Clip: p.clip, Done: v.last.Done, Sampler: p.sampler.Signature(),
			Latents: p.latents(whole, i)}}
		if e.Begun != nil {
			rows[i].Clips = e.Begun.Clips
		}
		for k, m := range v.last.Memory {
			rows[i].Memory = append(rows[i].Memory, stages.Remembered{Name: m.Name, Values: p.latents(memory[k], i)})
		}
	}
	return rows
}

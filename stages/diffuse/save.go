package diffuse

import (
	"context"
	"math"
	"slices"
	"time"

	"latentbeam/kernels"
	"latentbeam/stages"
	"latentbeam/stages/sampler"
)

// leastShare is how many times longer than saving took the work until the next time is: saving costs a hundredth of the
// work at most.
const leastShare = 100

// saver saves the steps of one sampling, as one rank sees it. Nil saves nothing.
type saver struct {
	*stages.Saving
	ctx    context.Context
	job    *job
	writes bool      // on this rank
	since  time.Time // of the last time
	cost   time.Duration
	next   int           // step behind which ranks of a set save; 0: they have not agreed
	busy   chan struct{} // closed when what was saved last is kept; nil: nothing was
}

// saver returns what saves the steps of a job on this rank.
func (m maker) saver(ctx context.Context, j *job) *saver {
	if m.saving == nil {
		return nil
	}
	return &saver{Saving: m.saving, ctx: ctx, job: j, writes: m.writes, since: time.Now()}
}

// wait returns when nothing is being saved any more.
func (v *saver) wait() {
	if v != nil && v.busy != nil {
		<-v.busy
	}
}

// pause is the work from one time to the next.
func (v *saver) pause() time.Duration {
	if v.Every == 0 {
		return 0
	}
	return max(v.Every, leastShare*v.cost)
}

// alone is told the states of a sampler that has all of the batch.
func (v *saver) alone(z []float32) func(sampler.State) error {
	if v == nil {
		return nil
	}
	return func(s sampler.State) error {
		if began := time.Now(); v.writes && began.Sub(v.since) >= v.pause() {
			memory := make([][]float32, len(s.Memory))
			for i := range memory {
				memory[i] = slices.Clone(s.Memory[i].Values)
			}
			v.keep(began, s, slices.Clone(z), memory)
		}
		return nil
	}
}

// shares is told the states of a rank's shares. Ranks save behind the same steps, and the first of them has the time.
func (v *saver) shares(r *rank, z []float32) func(sampler.State) error {
	if v == nil {
		return nil
	}
	return func(s sampler.State) error {
		switch {
		case v.Every == 0:
		case v.next == 0:
			return v.agree(r, s.Done, time.Since(v.since))
		case s.Done < v.next:
			return nil
		}
		began, last := time.Now(), v.since
		whole, err := v.job.gather(r, "saved latents", z, false)
		memory := make([][]float32, len(s.Memory))
		for i := range memory {
			if err == nil {
				memory[i], err = v.job.gather(r, "saved memory", s.Memory[i].Values, false)
			}
		}
		if err != nil {
			return err
		}
		steps := max(1, v.next-v.job.done)
		if v.writes {
			v.keep(began, s, whole, memory)
		}
		if v.Every == 0 {
			return nil
		}
		return v.agree(r, s.Done, began.Sub(last)/time.Duration(steps))
	}
}

// agree lets the first rank say behind which step all save next, where a step takes so long.
func (v *saver) agree(r *rank, done int, step time.Duration) error {
	defer r.dev.Scope()()
	x := r.dev.Alloc(kernels.F32, 1)
	steps := math.Ceil(float64(v.pause()) / float64(max(1, step)))
	steps = min(max(steps, 1), float64(v.job.sampler.Steps()))
	r.dev.Upload(x, []float32{float32(steps)})
	if err := r.group.Broadcast("next saving", 0, x); err != nil {
		return err
	}
	value := []float32{0}
	if err := r.dev.Download(value, x); err != nil {
		return err
	}
	v.next = done + int(value[0])
	return nil
}

// keep hands the values of the whole batch on, beside the steps that follow.
func (v *saver) keep(began time.Time, s sampler.State, z []float32, memory [][]float32) {
	v.wait()
	j := v.job
	n, shape := j.values(), []int{j.Channels, j.size.T, j.size.H, j.size.W}
	array := func(all []float32, i int) *stages.Array {
		return &stages.Array{Shape: shape, Data: all[i*n : (i+1)*n : (i+1)*n]}
	}
	rows := make([]stages.Saved, len(j.batch))
	for i, e := range j.batch {
		rows[i] = stages.Saved{Key: e.Key, Steps: stages.Steps{Clip: j.clip, Done: s.Done, Sampler: j.sampler.Signature(),
			Latents: array(z, i)}}
		if e.Begun != nil {
			rows[i].Clips = e.Begun.Clips
		}
		for k, m := range s.Memory {
			rows[i].Memory = append(rows[i].Memory, stages.Remembered{Name: m.Name, Values: array(memory[k], i)})
		}
	}
	busy := make(chan struct{})
	v.busy = busy
	go func() {
		defer close(busy)
		v.Save(v.ctx, rows)
	}()
	v.since = time.Now()
	v.cost = v.since.Sub(began)
}

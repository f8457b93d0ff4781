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
	kept   int           // steps that were done when it last saved
	last   sampler.State // that it was told
	busy   chan struct{} // closed when what was saved last is kept; nil: nothing was
}

// saverOf returns what saves the steps of a job on this rank.
func (m maker) saverOf(ctx context.Context, j *job) *saver {
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
		if v.last = s; v.writes && time.Since(v.since) >= v.pause() {
			v.keepAlone(z)
		}
		return nil
	}
}

// keepAlone keeps the last state of a sampler that has all of the batch.
func (v *saver) keepAlone(z []float32) {
	began := time.Now()
	memory := make([][]float32, len(v.last.Memory))
	for i := range memory {
		memory[i] = slices.Clone(v.last.Memory[i].Values)
	}
	v.keep(began, v.last, slices.Clone(z), memory)
}

// shares is told the states of a rank's shares. Ranks save behind the same steps, and the first of them has the time.
func (v *saver) shares(r *rank, z []float32) func(sampler.State) error {
	if v == nil {
		return nil
	}
	return func(s sampler.State) error {
		v.last = s
		switch {
		case v.Every == 0:
			return v.keepShares(r, z)
		case v.next == 0:
			return v.agree(r, s.Done, time.Since(v.since))
		case s.Done < v.next:
			return nil
		}
		took, steps := time.Since(v.since), s.Done-max(v.kept, v.job.done)
		if err := v.keepShares(r, z); err != nil {
			return err
		}
		return v.agree(r, s.Done, took/time.Duration(steps))
	}
}

// keepShares keeps the last state of the shares of a group.
func (v *saver) keepShares(r *rank, z []float32) error {
	began, s := time.Now(), v.last
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
	if v.kept = s.Done; v.writes {
		v.keep(began, s, whole, memory)
	}
	return nil
}

// pauses keeps the last state of a sampling that stands still until others have come as far, where all of them together
// have worked long enough since they began. r is nil for one that has all of the batch.
func (v *saver) pauses(r *rank, z []float32, began time.Time) error {
	if v == nil || v.last.Done == 0 || v.last.Done == v.kept {
		return nil
	}
	due := v.Every > 0 && time.Since(began) >= v.pause()
	if r == nil {
		if due && v.writes {
			v.keepAlone(z)
		}
		return nil
	}
	value := float32(0)
	if due {
		value = 1
	}
	if value, err := v.say(r, "pause", value); err != nil || value == 0 {
		return err
	}
	return v.keepShares(r, z)
}

// agree lets the first rank say behind which step all save next, where a step takes so long.
func (v *saver) agree(r *rank, done int, step time.Duration) error {
	steps := math.Ceil(float64(v.pause()) / float64(max(1, step)))
	steps = min(max(steps, 1), float64(v.job.sampler.Steps()))
	value, err := v.say(r, "next saving", float32(steps))
	v.next = done + int(value)
	return err
}

// say returns on every rank what the first one says.
func (v *saver) say(r *rank, op string, value float32) (float32, error) {
	defer r.dev.Scope()()
	x := r.dev.Alloc(kernels.F32, 1)
	r.dev.Upload(x, []float32{value})
	if err := r.group.Broadcast(op, 0, x); err != nil {
		return 0, err
	}
	said := []float32{0}
	err := r.dev.Download(said, x)
	return said[0], err
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
	v.kept, v.since = s.Done, time.Now()
	v.cost = v.since.Sub(began)
}

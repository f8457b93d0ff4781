package diffuse

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/diffuse/sampler"
)

// leastShare is how many times longer than saving took the work until the next time is: saving costs a hundredth of the
// work at most.
const leastShare = 100

// lastTime is how long saving may take once the job has ended.
const lastTime = 20 * time.Second

// keeper has the newest steps of the rows of a batch at hand, whole, and saves them: at their time, all at once from the moment on at
// which the process is told to end, and those of rows that are not sampled to the end where a sampling fails. Of a set the first rank has
// one.
type keeper struct {
	*stages.Saving
	ctx    context.Context
	detach func() bool // from Saving.Stopping

	mu     sync.Mutex
	newest map[schemas.Key]stages.Saved // those that are not saved yet
	ended  bool                         // no step follows
	saving chan struct{}                // closed when a save has ended; nil: none is at work
}

// newKeeper returns a keeper of the steps of a batch; nil: they are not saved.
func newKeeper(ctx context.Context, saving *stages.Saving) *keeper {
	if saving == nil {
		return nil
	}
	k := &keeper{Saving: saving, ctx: ctx, newest: map[schemas.Key]stages.Saved{}}
	if k.Stopping != nil {
		k.detach = context.AfterFunc(k.Stopping, func() { k.save() })
	}
	return k
}

// end returns when nothing is being saved any more. What is left of a batch that failed or was given up is saved first.
func (k *keeper) end(failed bool) {
	if k == nil {
		return
	}
	if k.detach != nil {
		k.detach()
	}
	k.mu.Lock()
	if k.ended = true; !failed {
		clear(k.newest)
	}
	k.mu.Unlock()
	k.save()
	k.idle()
}

// idle waits for a save at work.
func (k *keeper) idle() {
	k.mu.Lock()
	saving := k.saving
	k.mu.Unlock()
	if saving != nil {
		<-saving
	}
}

// urgent reports whether steps are to be saved without waiting for their time. The lock is held.
func (k *keeper) urgent() bool { return k.ended || k.Stopping != nil && k.Stopping.Err() != nil }

// retain has the steps of rows at hand. Nil has none.
func (k *keeper) retain(rows []stages.Saved) {
	if k == nil {
		return
	}
	k.mu.Lock()
	for _, r := range rows {
		k.newest[r.Key] = r
	}
	urgent := k.urgent()
	k.mu.Unlock()
	if urgent {
		k.save()
	}
}

// save saves the newest steps of some rows, or of all where none is named, beside the sampling. Where it is urgent it goes on with
// steps that come meanwhile.
func (k *keeper) save(keys ...schemas.Key) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.saving != nil {
		return
	}
	rows := k.take(keys)
	if len(rows) == 0 {
		return
	}
	done := make(chan struct{})
	k.saving = done
	go func() {
		defer close(done)
		for len(rows) > 0 {
			k.write(rows)
			rows = k.next()
		}
	}()
}

// write saves steps. The end of the job's context, which may come meanwhile, leaves it some time: a disk needs little of it, and a
// bucket that is out of reach must not hold up the end.
func (k *keeper) write(rows []stages.Saved) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(k.ctx))
	defer cancel()
	defer context.AfterFunc(k.ctx, func() { time.AfterFunc(lastTime, cancel) })()
	k.Save(ctx, rows)
}

// take takes the newest steps of some rows, or of all where none is named. The lock is held.
func (k *keeper) take(keys []schemas.Key) (rows []stages.Saved) {
	if keys == nil {
		keys = slices.Collect(maps.Keys(k.newest))
	}
	for _, key := range keys {
		if r, there := k.newest[key]; there {
			rows = append(rows, r)
			delete(k.newest, key)
		}
	}
	return rows
}

// next takes the steps that are to be saved behind others at once; none ends the save.
func (k *keeper) next() (rows []stages.Saved) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.urgent() {
		rows = k.take(nil)
	}
	if len(rows) == 0 {
		k.saving = nil
	}
	return rows
}

// saver saves the steps of one sampling at their times, as one rank sees it. Nil saves nothing.
type saver struct {
	*keeper
	writes bool      // on this rank
	since  time.Time // of the last time
	cost   time.Duration
}

// newSaver returns what saves the steps of a sampling on this rank.
func (m maker) newSaver() *saver {
	if m.keeper == nil {
		return nil
	}
	return &saver{keeper: m.keeper, writes: m.writes, since: time.Now()}
}

// pause is the work from one time to the next.
func (v *saver) pause() time.Duration {
	if v.Every == 0 {
		return 0
	}
	return max(v.Every, leastShare*v.cost)
}

// after is told the states of a sampler whose latents are z. It brings them to the first rank behind each step, which is little beside
// what the ranks of a set exchange in each block of a step.
func (v *saver) after(p portion, z []float32) func(sampler.State) error {
	if v == nil || p.rank == nil && !v.writes {
		return nil
	}
	return func(s sampler.State) error {
		began := time.Now()
		whole, memory, err := gatherState(p, s, z)
		if err != nil || !v.writes {
			return err
		}
		rows := savedRows(p, s, whole, memory)
		if began.Sub(v.since) < v.pause() {
			v.retain(rows)
		} else {
			v.saveNow(began, rows)
		}
		return nil
	}
}

// saveNow saves the steps of rows at their time, beside the steps that follow. It waits for a save at work, unless it is urgent.
func (v *saver) saveNow(began time.Time, rows []stages.Saved) {
	v.mu.Lock()
	urgent := v.urgent()
	v.mu.Unlock()
	if !urgent {
		v.idle()
	}
	v.retain(rows)
	v.save(keysOf(rows)...)
	v.since = time.Now()
	v.cost = v.since.Sub(began)
}

func keysOf(rows []stages.Saved) []schemas.Key {
	keys := make([]schemas.Key, len(rows))
	for i := range rows {
		keys[i] = rows[i].Key
	}
	return keys
}

// pauses saves the last steps of a sampling that stands still until others have come as far, where all of them together
// have worked long enough since they began.
func (v *saver) pauses(p portion, began time.Time) {
	if v == nil || !v.writes || v.Every == 0 || time.Since(began) < v.pause() {
		return
	}
	now := time.Now()
	v.idle()
	for _, e := range p.batch { // one: each element has a sampler of its own
		v.save(e.Key)
	}
	v.since = time.Now()
	v.cost = v.since.Sub(now)
}

// gatherState returns copies of the latents and of what the sampler remembers, whole, on the first rank.
func gatherState(p portion, s sampler.State, z []float32) (whole []float32, memory [][]float32, err error) {
	whole, err = p.gather("saved latents", z, false)
	memory = make([][]float32, len(s.Memory))
	for i := range memory {
		if err == nil {
			memory[i], err = p.gather("saved memory", s.Memory[i].Values, false)
		}
	}
	return whole, memory, err
}

// savedRows are the steps of the rows of a batch behind a step.
func savedRows(p portion, s sampler.State, whole []float32, memory [][]float32) []stages.Saved {
	rows := make([]stages.Saved, len(p.batch))
	for i, e := range p.batch {
		rows[i] = stages.Saved{Key: e.Key, Steps: stages.Steps{Clip: p.clip, Done: s.Done, Sampler: p.sampler.Signature(),
			Latents: p.latents(whole, i)}}
		if e.Begun != nil {
			rows[i].Clips, rows[i].Readings = e.Begun.Clips, e.Begun.Readings
		}
		for k, m := range s.Memory {
			rows[i].Memory = append(rows[i].Memory, stages.Remembered{Name: m.Name, Values: p.latents(memory[k], i)})
		}
	}
	return rows
}

// sampled has the latents of rows at hand whose sampling has come to its end: others of the batch may still be sampled, and of a longer
// video the clips that follow.
func (m maker) sampled(p portion) {
	if m.keeper == nil || !m.writes {
		return
	}
	rows := make([]stages.Saved, len(p.batch))
	for i, e := range p.batch {
		clips := []*stages.Array{e.Latents}
		if e.Begun != nil {
			clips = append(slices.Clone(e.Begun.Clips), e.Latents)
		}
		rows[i].Key = e.Key
		if len(clips) < e.Row.Loop {
			rows[i].Steps = stages.Steps{Clip: len(clips), Clips: clips, Readings: e.Readings}
			continue
		}
		rows[i].Steps = stages.Steps{Done: e.Row.NumInferenceSteps, Latents: joinFrames(clips), Sampled: true, Scale: e.LatentScale,
			Readings: e.Readings}
	}
	m.keeper.retain(rows)
}

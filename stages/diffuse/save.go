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

// leastShare is the least ratio of work to saving time between two saves: saving takes at most one hundredth of the work.
const leastShare = 100

// lastTime is how long a save may take after the job was cancelled.
const lastTime = 20 * time.Second

// keeper holds the newest complete steps of a batch's rows and saves them at intervals. When the process is told to stop it
// saves all of them at once. When a sampling fails it saves the steps of unfinished rows. In a set only the first rank has a
// keeper.
type keeper struct {
	*stages.Saving
	ctx    context.Context
	detach func() bool // removes the callback on Saving.Stopping

	mu     sync.Mutex
	newest map[schemas.Key]stages.Saved // newest steps that are not saved yet
	ended  bool                         // no more steps follow
	saving chan struct{}                // closed when the running save has ended; nil: none is running
}

// newKeeper returns a keeper for a batch; nil if steps are not saved.
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

// close waits for the running save. If the batch failed or was cancelled, it first saves the remaining steps.
func (k *keeper) close(failed bool) {
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

// idle waits for the running save, if there is one.
func (k *keeper) idle() {
	k.mu.Lock()
	saving := k.saving
	k.mu.Unlock()
	if saving != nil {
		<-saving
	}
}

// urgent reports whether steps must be saved at once. The caller holds the lock.
func (k *keeper) urgent() bool { return k.ended || k.Stopping != nil && k.Stopping.Err() != nil }

// retain stores the newest steps of rows. A nil keeper ignores them.
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

// save starts saving the newest steps of the rows keys, or of all rows without keys, in the background. If saving is urgent it
// also saves the steps that arrive meanwhile.
func (k *keeper) save(keys ...schemas.Key) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.saving != nil {
		return
	}
	rows := k.removeNewest(keys)
	if len(rows) == 0 {
		return
	}
	done := make(chan struct{})
	k.saving = done
	go func() {
		defer close(done)
		for len(rows) > 0 {
			k.write(rows)
			rows = k.nextUrgent()
		}
	}()
}

// write saves steps. When the job's context is cancelled it continues for lastTime: that is enough for a disk, and a bucket
// that cannot be reached must not block the end of the job.
func (k *keeper) write(rows []stages.Saved) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(k.ctx))
	defer cancel()
	defer context.AfterFunc(k.ctx, func() { time.AfterFunc(lastTime, cancel) })()
	k.Save(ctx, rows)
}

// removeNewest removes and returns the newest steps of the rows keys, or of all rows without keys. The caller holds the lock.
func (k *keeper) removeNewest(keys []schemas.Key) (rows []stages.Saved) {
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

// nextUrgent removes and returns the steps that must be saved at once after others. If there are none, the save ends.
func (k *keeper) nextUrgent() (rows []stages.Saved) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.urgent() {
		rows = k.removeNewest(nil)
	}
	if len(rows) == 0 {
		k.saving = nil
	}
	return rows
}

// saver saves the steps of one sampling at intervals, as one rank sees it. A nil saver saves nothing.
type saver struct {
	*keeper
	writes bool      // on this rank
	since  time.Time // time of the last save
	cost   time.Duration
}

// newSaver returns the saver of a sampling on this rank.
func (m maker) newSaver() *saver {
	if m.keeper == nil {
		return nil
	}
	return &saver{keeper: m.keeper, writes: m.writes, since: time.Now()}
}

// interval returns the least work between two saves.
func (v *saver) interval() time.Duration {
	if v.Every == 0 {
		return 0
	}
	return max(v.Every, leastShare*v.cost)
}

// after returns the sampler's callback for states with latents z. It gathers them on the first rank after every step. That is
// little data, compared to what the ranks of a set exchange in each block of a step.
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
		if began.Sub(v.since) < v.interval() {
			v.retain(rows)
		} else {
			v.saveNow(began, rows)
		}
		return nil
	}
}

// saveNow saves steps of rows while the next steps run, if the interval has passed. It waits for the running save unless saving
// is urgent.
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

// saveWaiting saves the newest steps of a sampling that now waits for others of its group, if the group has worked for the interval
// since began.
func (v *saver) saveWaiting(p portion, began time.Time) {
	if v == nil || !v.writes || v.Every == 0 || time.Since(began) < v.interval() {
		return
	}
	now := time.Now()
	v.idle()
	for _, e := range p.batch { // one element: each has its own sampler
		v.save(e.Key)
	}
	v.since = time.Now()
	v.cost = v.since.Sub(now)
}

// gatherState gathers copies of the latents and of the sampler's memory on the first rank.
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

// savedRows returns the steps of the batch's rows after a step.
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

// sampled retains the latents of rows that are completely sampled, because other rows of the batch, or later clips of a video,
// may still be running.
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

package engine

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"latentbeam/internal/storage/ledger"
	"latentbeam/internal/storage/store"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// The state of a long sampling is saved in the output, one file for each row, so that a kill costs only the work
// since the last save (design decision D15). Saved steps only save time. A file that is damaged, or belongs to another job
// or numeric class, is ignored. A row whose steps cannot be saved is sampled as usual.

// stepsFolder holds the files of saved steps. It may lie in the ledger's folder because the ledger reads only its segments.
const stepsFolder = "ledger/steps/"

// stepsName is the name of a row's steps.
func stepsName(k schemas.Key) string { return stepsFolder + k.String() + ".safetensors" }

// SavedSteps saves the steps of long samplings in an engine's output, and gives them to rows that are sampled again.
type SavedSteps struct {
	engine *Engine        // whose output, numeric class and schedule are used
	every  *time.Duration // work between two saves of a sampling; nil: steps are not saved

	mu     sync.Mutex
	saved  map[schemas.Key]bool
	warned bool
	// sampled holds rows whose latents are complete and whose results are not published. They are saved when the job is told to
	// stop, because the stages after the sampler may take longer than the process has left.
	sampled map[schemas.Key]*stages.Saved

	resumed atomic.Int64
}

// SaveEvery makes each sampling save its steps when it has worked for the duration every since its last save; 0: after each step.
func (s *SavedSteps) SaveEvery(every time.Duration) {
	s.every = &every
	context.AfterFunc(s.engine.Schedule.Stopped(), func() {
		for _, row := range s.allSampled() {
			s.saveSampled(row)
		}
	})
}

// allSampled returns the rows whose latents are complete and whose results are not published.
func (s *SavedSteps) allSampled() []*stages.Saved {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.sampled))
}

// retain keeps the latents of sampled elements until their results are published.
func (s *SavedSteps) retain(live []*stages.Element) {
	if s.every == nil {
		return
	}
	for _, el := range live {
		if el.Failed != nil || el.Latents == nil {
			continue
		}
		row := &stages.Saved{Key: el.Key, Steps: stages.Steps{Done: el.Row.NumInferenceSteps, Latents: el.Latents,
			Sampled: true, Scale: el.LatentScale, Readings: el.Readings}}
		s.mu.Lock()
		if s.sampled == nil {
			s.sampled = map[schemas.Key]*stages.Saved{}
		}
		s.sampled[el.Key] = row
		s.mu.Unlock()
		if s.engine.Schedule.Stopping() {
			go s.saveSampled(row)
		}
	}
}

// saveSampled saves the complete latents of a row, and removes them again if the row was published meanwhile. It also saves
// when the job's context has ended.
func (s *SavedSteps) saveSampled(row *stages.Saved) {
	s.save(context.Background(), []stages.Saved{*row})
	s.mu.Lock()
	_, wanted := s.sampled[row.Key]
	s.mu.Unlock()
	if !wanted {
		s.remove(context.Background(), row.Key)
	}
}

// Resumed returns the number of sampling steps that earlier processes saved and this run did not repeat.
func (s *SavedSteps) Resumed() int64 { return s.resumed.Load() }

// find lists the saved steps of the output. If listing fails, rows start from their first step.
func (s *SavedSteps) find(ctx context.Context) {
	for info, err := range s.engine.Store.List(ctx, stepsFolder, store.Flat) {
		if err != nil {
			s.warn("saved steps cannot be listed: rows start over", "", err)
			return
		}
		if k, ok := keyOfSteps(info.Name); ok {
			s.record(k, true)
		}
	}
}

// keyOfSteps is the inverse of stepsName.
func keyOfSteps(name string) (k schemas.Key, ok bool) {
	text, ok := strings.CutSuffix(strings.TrimPrefix(name, stepsFolder), ".safetensors")
	if !ok {
		return k, false
	}
	k, err := schemas.ParseKey(text)
	return k, err == nil
}

// record stores whether the output has saved steps of a row.
func (s *SavedSteps) record(k schemas.Key, saved bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.saved == nil {
		s.saved = map[schemas.Key]bool{}
	}
	if saved {
		s.saved[k] = true
	} else {
		delete(s.saved, k)
	}
}

// has reports whether the output has saved steps of a row.
func (s *SavedSteps) has(k schemas.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.saved[k]
}

// warn logs the first error of saving or reading steps; later ones are silent.
func (s *SavedSteps) warn(what, name string, err error) {
	s.mu.Lock()
	first := !s.warned
	s.warned = true
	s.mu.Unlock()
	if first && !errors.Is(err, context.Canceled) {
		slog.Warn(what, "file", name, "error", err)
	}
}

// resume gives elements their saved steps and returns the elements that still need sampling. The others get their complete latents.
func (s *SavedSteps) resume(ctx context.Context, live []*stages.Element) (left []*stages.Element) {
	for _, el := range live {
		s.resumeOne(ctx, el)
		if b := el.Begun; b != nil && b.Sampled {
			el.Latents, el.RawLatents, el.LatentScale, el.Begun = b.Latents, nil, b.Scale, nil
			if b.Readings != nil {
				el.Read(b.Readings)
			}
			continue
		}
		left = append(left, el)
	}
	return left
}

// resumeOne gives an element its saved steps.
func (s *SavedSteps) resumeOne(ctx context.Context, el *stages.Element) {
	el.Begun = nil
	if s.every == nil || !s.has(el.Key) {
		return
	}
	name := stepsName(el.Key)
	data, err := store.ReadFile(ctx, s.engine.Store, name)
	if err == nil {
		el.Begun, err = readSteps(data, el.Key, s.engine.Rules.Class)
	}
	if err != nil {
		s.record(el.Key, false)
		slog.Warn("the saved steps of a row cannot be used: it starts over", "file", name, "error", err)
		return
	}
	n := el.Begun.Count(el.Row.NumInferenceSteps)
	s.resumed.Add(int64(n))
	slog.Info("a row goes on where an earlier run has left it", "row", el.Key, "step", el.Begun.Done, "clip", el.Begun.Clip,
		"of", el.Row.NumInferenceSteps)
}

// saving returns how a batch saves its steps; nil: it does not save them.
func (s *SavedSteps) saving() *stages.Saving {
	if s.every == nil {
		return nil
	}
	return &stages.Saving{Every: *s.every, Save: s.save, Stopping: s.engine.Schedule.Stopped()}
}

// save writes the steps of rows. A row's file is replaced as a whole.
func (s *SavedSteps) save(ctx context.Context, rows []stages.Saved) {
	for i := range rows {
		name := stepsName(rows[i].Key)
		err := s.engine.Store.Replace(ctx, name, func(w io.Writer) error { return writeSteps(w, &rows[i], s.engine.Rules.Class) })
		if err != nil {
			s.warn("the steps of a row cannot be saved: a kill costs more than it should", name, err)
			return
		}
		s.record(rows[i].Key, true)
		fault.Point(fault.StepsKept)
	}
}

// isSuspicious reports whether all steps that an attempt computed may be wrong; ill: a device of the attempt is ill.
func isSuspicious(err error, ill bool) bool {
	return ill || err != nil && (fault.IsNotFinite(err) || fault.ClassOf(err) == fault.ClassRow)
}

// remove removes the saved steps of rows.
func (s *SavedSteps) remove(ctx context.Context, keys ...schemas.Key) {
	for _, k := range keys {
		s.mu.Lock()
		delete(s.sampled, k)
		s.mu.Unlock()
		if !s.has(k) {
			continue
		}
		name := stepsName(k)
		if err := s.engine.Store.Remove(ctx, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.warn("saved steps cannot be removed", name, err)
		}
		s.record(k, false)
	}
}

// Clean removes the saved steps of settled rows; all: of every row.
func (s *SavedSteps) Clean(ctx context.Context, all bool) error {
	var old []string
	for info, err := range s.engine.Store.List(ctx, stepsFolder, store.Flat) {
		if err != nil {
			return err
		}
		k, ok := keyOfSteps(info.Name)
		if !ok {
			continue
		}
		_, status, err := s.engine.Ledger.Lookup(ledger.Key(k))
		if err != nil {
			return err
		}
		if all || status != ledger.Absent {
			old = append(old, info.Name)
		}
	}
	for _, name := range old {
		if err := s.engine.Store.Remove(ctx, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

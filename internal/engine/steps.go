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

// savedSteps records which rows have saved steps in the output.
type savedSteps struct {
	mu     sync.Mutex
	saved  map[schemas.Key]bool
	warned bool
	// sampled holds rows whose latents are complete and whose results are not published. They are saved when the job is told to
	// stop, because the stages after the sampler may take longer than the process has left.
	sampled map[schemas.Key]*stages.Saved

	resumed atomic.Int64
}

// SaveSteps makes samplings save their steps whenever every has passed in work; 0: after each step.
func (e *Engine) SaveSteps(every time.Duration) {
	e.saveEvery = &every
	context.AfterFunc(e.Schedule.Stopped(), func() {
		for _, s := range e.steps.allSampled() {
			e.saveSampled(s)
		}
	})
}

// allSampled returns the rows whose latents are complete and whose results are not published.
func (s *savedSteps) allSampled() []*stages.Saved {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.sampled))
}

// keepSampled retains the latents of sampled elements until their results are published.
func (e *Engine) keepSampled(live []*stages.Element) {
	if e.saveEvery == nil {
		return
	}
	for _, el := range live {
		if el.Failed != nil || el.Latents == nil {
			continue
		}
		s := &stages.Saved{Key: el.Key, Steps: stages.Steps{Done: el.Row.NumInferenceSteps, Latents: el.Latents,
			Sampled: true, Scale: el.LatentScale, Readings: el.Readings}}
		e.steps.mu.Lock()
		if e.steps.sampled == nil {
			e.steps.sampled = map[schemas.Key]*stages.Saved{}
		}
		e.steps.sampled[el.Key] = s
		e.steps.mu.Unlock()
		if e.Schedule.Stopping() {
			go e.saveSampled(s)
		}
	}
}

// saveSampled saves the complete latents of a row, and removes them again if the row was published meanwhile. It ignores the end of
// the job.
func (e *Engine) saveSampled(s *stages.Saved) {
	e.saveSteps(context.Background(), []stages.Saved{*s})
	e.steps.mu.Lock()
	_, wanted := e.steps.sampled[s.Key]
	e.steps.mu.Unlock()
	if !wanted {
		e.removeSteps(context.Background(), s.Key)
	}
}

// StepsResumed returns the number of sampling steps that earlier processes saved and this run did not repeat.
func (e *Engine) StepsResumed() int64 { return e.steps.resumed.Load() }

// findSteps lists the saved steps of the output. If listing fails, rows start from their first step.
func (e *Engine) findSteps(ctx context.Context) {
	for info, err := range e.Store.List(ctx, stepsFolder, store.Flat) {
		if err != nil {
			e.stepsTrouble("saved steps cannot be listed: rows begin anew", "", err)
			return
		}
		if k, ok := keyOfSteps(info.Name); ok {
			e.steps.record(k, true)
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
func (s *savedSteps) record(k schemas.Key, saved bool) {
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
func (s *savedSteps) has(k schemas.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.saved[k]
}

// stepsTrouble logs the first error of saving or reading steps; later ones are silent.
func (e *Engine) stepsTrouble(what, name string, err error) {
	e.steps.mu.Lock()
	first := !e.steps.warned
	e.steps.warned = true
	e.steps.mu.Unlock()
	if first && !errors.Is(err, context.Canceled) {
		slog.Warn(what, "file", name, "error", err)
	}
}

// resume gives elements their saved steps and returns the elements that still need sampling. The others get their complete latents.
func (e *Engine) resume(ctx context.Context, live []*stages.Element) (left []*stages.Element) {
	for _, el := range live {
		e.resumeOne(ctx, el)
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
func (e *Engine) resumeOne(ctx context.Context, el *stages.Element) {
	el.Begun = nil
	if e.saveEvery == nil || !e.steps.has(el.Key) {
		return
	}
	name := stepsName(el.Key)
	data, err := store.ReadFile(ctx, e.Store, name)
	if err == nil {
		el.Begun, err = readSteps(data, el.Key, e.Rules.Class)
	}
	if err != nil {
		e.steps.record(el.Key, false)
		slog.Warn("the saved steps of a row cannot be used: it begins anew", "file", name, "error", err)
		return
	}
	n := el.Begun.Count(el.Row.NumInferenceSteps)
	e.steps.resumed.Add(int64(n))
	slog.Info("a row goes on where an earlier run has left it", "row", el.Key, "step", el.Begun.Done, "clip", el.Begun.Clip,
		"of", el.Row.NumInferenceSteps)
}

// saving returns how a batch saves its steps; nil: it does not save them.
func (e *Engine) saving() *stages.Saving {
	if e.saveEvery == nil {
		return nil
	}
	return &stages.Saving{Every: *e.saveEvery, Save: e.saveSteps, Stopping: e.Schedule.Stopped()}
}

// saveSteps writes the steps of rows. A row's file is replaced as a whole.
func (e *Engine) saveSteps(ctx context.Context, rows []stages.Saved) {
	for i := range rows {
		name := stepsName(rows[i].Key)
		err := e.Store.Replace(ctx, name, func(w io.Writer) error { return writeSteps(w, &rows[i], e.Rules.Class) })
		if err != nil {
			e.stepsTrouble("the steps of a row cannot be saved: a kill costs more than it should", name, err)
			return
		}
		e.steps.record(rows[i].Key, true)
		fault.Point(fault.StepsKept)
	}
}

// isSuspicious reports whether all steps that an attempt computed may be wrong.
func isSuspicious(err error, ill bool) bool {
	return ill || err != nil && (fault.IsNotFinite(err) || fault.ClassOf(err) == fault.ClassRow)
}

// removeSteps removes the saved steps of rows.
func (e *Engine) removeSteps(ctx context.Context, keys ...schemas.Key) {
	for _, k := range keys {
		e.steps.mu.Lock()
		delete(e.steps.sampled, k)
		e.steps.mu.Unlock()
		if !e.steps.has(k) {
			continue
		}
		name := stepsName(k)
		if err := e.Store.Remove(ctx, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			e.stepsTrouble("saved steps cannot be removed", name, err)
		}
		e.steps.record(k, false)
	}
}

// CleanSteps removes the saved steps of settled rows; all: of every row.
func (e *Engine) CleanSteps(ctx context.Context, all bool) error {
	var old []string
	for info, err := range e.Store.List(ctx, stepsFolder, store.Flat) {
		if err != nil {
			return err
		}
		k, ok := keyOfSteps(info.Name)
		if !ok {
			continue
		}
		_, status, err := e.Ledger.Lookup(ledger.Key(k))
		if err != nil {
			return err
		}
		if all || status != ledger.Absent {
			old = append(old, info.Name)
		}
	}
	for _, name := range old {
		if err := e.Store.Remove(ctx, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

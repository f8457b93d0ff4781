package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"latentbeam/internal/engine/schedule"
	"latentbeam/internal/media"
	"latentbeam/internal/storage/source"
	"latentbeam/internal/storage/store"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
	"latentbeam/stages/video"
)

// Station runs one stage in one bundle. A goroutine for each batch leases a device; the number of batches in flight is
// bounded. Finished batches are emitted from Submit and Close, because a runner accepts output only during these calls.
// So the stages of a job overlap although a bundle has one goroutine.
type Station struct {
	index    int
	engine   *Engine
	step     *stages.Step
	ctx      context.Context
	cancel   context.CancelCauseFunc
	results  chan finished
	inFlight int             // batches
	rows     int             // rows in these batches
	listed   bool            // saved steps were listed
	behind   <-chan struct{} // closed when a later stage finishes a batch after this one's last emit
}

// finished is a batch that has left the stage, or the error that ends the job. Both are nil for a batch that
// was dropped after Stop.
type finished struct {
	batch *stages.Batch
	err   error
	rows  int // rows that were submitted
}

// Station opens step number index of the job for one bundle; ctx is the bundle's.
func (e *Engine) Station(ctx context.Context, index int) *Station {
	s := &Station{index: index, engine: e, step: &e.Schedule.Steps[index]}
	s.ctx, s.cancel = e.bundle(ctx)
	s.results = make(chan finished, e.Schedule.Most(index))
	s.behind = e.finished.after(index)
	return s
}

// Submit starts the batch and emits the batches that have finished. It waits only while the stage has no room for the batch.
func (s *Station) Submit(b *stages.Batch, emit func(*stages.Batch)) error {
	if b.Settled() && !slices.ContainsFunc(b.Elements, s.step.Lacking) {
		s.emit(b, emit) // this stage has nothing to compute for it
		b = &stages.Batch{}
	}
	for len(b.Elements) > 0 && !s.engine.Schedule.Room(s.index, s.inFlight, s.rows, &b.Elements[0].Row) {
		if err := s.collect(emit); err != nil {
			return err
		}
	}
	if len(b.Elements) > 0 {
		if !s.listed && s.engine.Steps.every != nil && s.engine.Schedule.Samples(s.index) {
			s.listed = true
			s.engine.Steps.find(s.ctx)
		}
		s.inFlight++
		s.rows += len(b.Elements)
		results, passage := s.results, s.engine.openPassage(s.index, b)
		s.engine.running.Go(func() {
			o := s.run(b, passage)
			o.rows = len(b.Elements)
			results <- o
			s.engine.finished.notify(s.index)
		})
	}
	for {
		select {
		case o := <-s.results:
			if err := s.finish(o, emit); err != nil {
				return err
			}
		default:
			if len(b.Elements) == 0 {
				s.emit(b, emit)
			}
			return nil
		}
	}
}

// Close waits for all batches in flight and emits them.
func (s *Station) Close(emit func(*stages.Batch)) error {
	defer s.cancel(nil)
	for s.inFlight > 0 {
		if err := s.collect(emit); err != nil {
			return err
		}
	}
	return nil
}

// emit sends a batch to the next stage.
func (s *Station) emit(b *stages.Batch, emit func(*stages.Batch)) {
	s.behind = s.engine.finished.after(s.index)
	emit(b)
	s.engine.emitted(s.index, b)
}

// collect waits until a batch of this stage finishes, and emits it. If a later stage finishes a batch first, collect emits an empty
// batch: a stage can emit only while it is called, and its finished batch should not wait.
func (s *Station) collect(emit func(*stages.Batch)) error {
	select {
	case o := <-s.results:
		return s.finish(o, emit)
	case <-s.behind:
		s.emit(&stages.Batch{}, emit)
		return nil
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
}

func (s *Station) finish(o finished, emit func(*stages.Batch)) error {
	s.inFlight--
	s.rows -= o.rows
	if o.err != nil {
		s.cancel(o.err)
		return s.engine.Fail(o.err)
	}
	if o.batch != nil {
		s.emit(o.batch, emit)
	}
	return nil
}

// run runs the stage on the batch. It returns fatal errors only; any other error sets Failed of its elements.
func (s *Station) run(b *stages.Batch, passage *schedule.Passage) (o finished) {
	defer func() {
		if o.batch == nil {
			s.engine.closePassage(b)
		}
	}()
	if s.index == 0 && s.engine.Rules.Input == stages.KindVideo {
		if err := s.open(b.Live()); err != nil {
			return finished{err: err}
		}
	}
	if !b.Settled() { // the schedule does not expect finished rows, and their input is published already
		for _, e := range b.Live() {
			s.checkInput(e)
		}
		s.engine.Schedule.Arrive(s.index, b)
	}
	live := b.Live()
	if s.step.MeasuresOnly {
		live = slices.DeleteFunc(live, func(e *stages.Element) bool { return !s.step.Lacking(e) })
		if err := s.fetch(live); err != nil {
			return finished{err: err}
		}
		live = slices.DeleteFunc(live, func(e *stages.Element) bool { return e.Failed != nil })
	}
	defer s.judge(b)
	if len(live) == 0 {
		return finished{batch: b}
	}
	switch err := s.resolve(live, passage); {
	case errors.Is(err, errDropped):
		return finished{}
	case err != nil:
		return finished{err: err}
	}
	for _, e := range live {
		if !e.Has(s.step.Gives) {
			e.Fail(s.step.Name, fmt.Errorf("the stage gave no %s", s.step.Gives))
		}
		if e.Failed != nil || !s.neededLater(s.step.Spec.In) {
			e.Drop(s.step.Spec.In)
		}
		if s.index == len(s.engine.Schedule.Steps)-1 && e.Video != nil {
			e.Video.Recon = nil // no later stage needs it
		}
	}
	return finished{batch: b}
}

// fetch loads the published videos of finished elements for a step that looks at them.
func (s *Station) fetch(live []*stages.Element) error {
	for _, e := range live {
		if e.Settled == nil || s.step.Gives != stages.KindVideo || e.Video != nil {
			continue
		}
		v := e.Settled.Video
		if v.Source != "" {
			if err := s.open([]*stages.Element{e}); err != nil {
				return err
			}
			continue
		}
		data, err := store.ReadFile(s.ctx, s.engine.Store, v.Path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			e.Fail(s.step.Name, fault.Row(fmt.Errorf("%s is not there any more", v.Path)))
		case err != nil:
			return err
		}
		e.Video = &schemas.Encoded{Data: data, Ext: path.Ext(v.Path), Codec: v.Codec}
	}
	return nil
}

// open reads the input videos of elements. A new element also gets its size, frame rate and poster. An unreadable file fails its
// element.
func (s *Station) open(all []*stages.Element) error {
	var unseen []*stages.Element
	for _, e := range all {
		if e.Video != nil {
			continue
		}
		if err := s.unread(e, s.bring(e)); err != nil {
			return err
		}
		if e.Failed == nil && e.Settled == nil {
			unseen = append(unseen, e)
		}
	}
	for group := range slices.Chunk(unseen, mostSettled) {
		clips := make([]*schemas.Clip, len(group))
		if len(group) > 1 {
			clips = video.ShownTogether(s.ctx, group)
		}
		for i, e := range group {
			if err := s.unread(e, s.describe(e, clips[i])); err != nil {
				return err
			}
		}
	}
	return nil
}

// bring reads the file of an element.
func (s *Station) bring(e *stages.Element) error {
	file, err := source.Media(s.ctx, e.Row.Media)
	if err != nil {
		return err
	}
	defer file.Release()
	data, err := os.ReadFile(file.Path)
	if err != nil {
		return fault.Row(err)
	}
	e.Video = &schemas.Encoded{Data: data, Ext: strings.ToLower(path.Ext(e.Row.Media))}
	return nil
}

// describe sets size, frame rate and poster of a new element from c, the clip that a player shows. If c is nil, describe decodes
// the clip. It retains small clips for the steps that look at them.
func (s *Station) describe(e *stages.Element, c *schemas.Clip) (err error) {
	if c == nil {
		if c, err = video.Shown(s.ctx, e); err != nil {
			return err
		}
	}
	v := e.Video
	v.Codec, v.Width, v.Height, v.Frames = strings.TrimPrefix(v.Ext, "."), c.Width, c.Height, len(c.Frames)
	if c.Height*c.Width*len(c.Frames)*3 <= video.TogetherBytes {
		v.Recon = c
	}
	if e.Row.FPS == 0 {
		e.Row.FPS = c.FPS
	}
	e.Poster, err = media.Poster(c.Middle(), c.Width, c.Height)
	return err
}

// unread fails the element if err is an error of its file, and returns any other error.
func (s *Station) unread(e *stages.Element, err error) error {
	if err != nil && (s.ctx.Err() != nil || fault.ClassOf(err) != fault.ClassRow) {
		return err
	}
	if err != nil {
		e.Fail("read", err)
	}
	return nil
}

// judge clears the failures of elements whose result stays valid. If a step that looks at a video fails, the video stays a result,
// and judge records the failure for each measure that is missing. If a limit drops an element for which all work is done, the
// element stays a result, and the report applies the limit.
func (s *Station) judge(b *stages.Batch) {
	last := !slices.ContainsFunc(s.engine.Schedule.Steps[s.index+1:], func(o stages.Step) bool { return !o.MeasuresOnly && !o.Spec.Passive })
	for _, e := range b.Elements {
		switch {
		case e.Failed == nil || e.Failed.Stage != s.step.Name && e.Settled == nil:
		case s.step.MeasuresOnly && (e.Settled != nil || s.step.Gives == stages.KindVideo && s.engine.Keep[stages.KindVideo]):
			for _, m := range s.step.Capabilities().Measures {
				if e.Lacks(m) {
					e.LookFail(m, e.Failed)
				}
			}
			e.Failed = nil
		case len(s.step.Capabilities().Limits) > 0 && last && e.Failed.IsDropped():
			e.Failed = nil
		}
	}
}

// checkInput fails an element that lacks the stage's input. At the first stage, it also fails an element whose input has NaN or
// infinite numbers.
func (s *Station) checkInput(e *stages.Element) {
	if k := s.step.Spec.In; k != "" && !e.Has(k) {
		e.Fail("read", fmt.Errorf("no %s: %s", k, e.Unread))
	} else if k == stages.KindLatents && e.Latents == nil && !s.step.Capabilities().TakesRaw {
		e.Fail("read", fmt.Errorf("the table has raw latents (latent_space), and %s takes those of denoisers", s.step.Name))
	} else if s.index == 0 {
		if why := e.NotFinite(k); why != "" {
			e.Fail("read", errors.New(why))
		}
	}
}

// mayDrop reports whether a stopping job drops a batch that waits for this stage. The job drops batches that wait for
// the sampler or an earlier stage, because the earlier stages are cheap. A job without a sampler drops batches that wait for the
// first stage that does not combine batches, or for an earlier one. The job finishes all other batches.
func (s *Station) mayDrop() bool {
	for i, step := range s.engine.Schedule.Steps {
		if slices.Contains(step.Spec.Params, stages.ParamSteps) {
			return s.index <= i
		}
	}
	return !slices.ContainsFunc(s.engine.Schedule.Steps[:s.index], func(before stages.Step) bool {
		return before.Capabilities().Together == nil
	})
}

// neededLater reports whether kind k is published or is input of a later step. A step without a fixed input
// kind, such as a guard, needs every kind.
func (s *Station) neededLater(k stages.Kind) bool {
	return k == s.step.Gives || s.engine.Keep[k] || slices.ContainsFunc(s.engine.Schedule.Steps[s.index+1:], func(later stages.Step) bool {
		if later.Spec.MeasuresOnly && later.Spec.In == "" {
			return k == stages.KindVideo || k == stages.KindMedia
		}
		return later.Spec.In == k || later.Spec.In == ""
	})
}

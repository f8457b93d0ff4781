package pipelines

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"time"

	"latentbeam/internal/config"
	"latentbeam/internal/engine"
	"latentbeam/internal/results/audit"
	"latentbeam/internal/results/report"
	"latentbeam/internal/results/tensors"
	"latentbeam/internal/storage/fingerprints"
	"latentbeam/internal/storage/ledger"
	"latentbeam/internal/storage/store"
	"latentbeam/internal/storage/store/open"
	"latentbeam/pipelines/reuse"
	"latentbeam/schemas/fault"
)

// output is the output of a job. It opens it, to be written (attach) or only to be read (peek), for the engine, the report and
// whoever reuses results.
type output struct {
	how         outputs
	url         string
	engine      *engine.Engine
	report      *report.Job
	results     *reuse.Results
	recall      *recollection     // of the stages that looked in earlier releases
	retry       bool              // forget failed rows
	look        fingerprints.Look // how closely a run looks at what is there
	several     bool              // other processes of the job write there too
	sharesNames func() bool       // of media files

	reading bool     // it is open to be read
	free    []string // locks of others that nobody holds while this run holds its own
	close   []func()
}

// attach opens the output for writing and takes its lock; a second run on it gets an error that names the first. detach gives
// it back. before, where not nil, is called with the locked store, before anything is read of it.
func (o *output) attach(ctx context.Context, before func(store.Store) error) error {
	s, err := o.open(ctx, o.how.write)
	if err != nil {
		return err
	}
	if err := o.refuseUnsafe(s); err != nil {
		return err
	}
	release, err := o.lock(ctx, s)
	if err != nil {
		return err
	}
	o.close = append(o.close, release)
	if before != nil {
		if err := before(s); err != nil {
			return err
		}
	}
	return o.use(ctx, s)
}

// open opens the store of the output.
func (o *output) open(ctx context.Context, open func(context.Context, string) (store.Store, error)) (store.Store, error) {
	s, err := open(ctx, o.url)
	if err == nil {
		o.close = append(o.close, func() { s.Close() })
	}
	return s, err
}

// peek opens an output that is already there, only to read it; without one there is nothing done yet.
func (o *output) peek(ctx context.Context) error {
	s, err := o.open(ctx, o.how.read)
	if errors.Is(err, fs.ErrNotExist) {
		o.forget() // one that was there before
		return nil
	}
	if err != nil {
		return err
	}
	o.reading = true
	return o.use(ctx, s)
}

// forget lets the job be one without an output.
func (o *output) forget() { o.engine.Store, o.engine.Ledger = nil, nil }

// maxLooks bounds how often an output is read anew that somebody else changes meanwhile.
const maxLooks = 5

// again retries the read when a finishing run has removed a file meanwhile. A reader holds no lock.
func (o *output) again(read func() error) (err error) {
	for range maxLooks {
		if err = read(); !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, store.ErrChanged) {
			return err
		}
		o.detach()
	}
	return err
}

// detach gives back the output, so that it may be opened again.
func (o *output) detach() {
	o.release()
	o.engine.Rules.Known, o.engine.Book, o.report.Recall = nil, nil, nil
}

// release closes what is open of the output.
func (o *output) release() {
	for i := len(o.close) - 1; i >= 0; i-- {
		o.close[i]()
	}
	o.close, o.reading = nil, false
}

// use opens the ledger of the store.
func (o *output) use(ctx context.Context, s store.Store) error {
	l, err := ledger.Open(ctx, s)
	if err != nil {
		return err
	}
	o.close = append(o.close, l.Close)
	w, err := fingerprints.LoadWitness(ctx, s)
	if err != nil {
		return err
	}
	files := &fingerprints.Output{Store: s, Witness: w}
	home := &tensors.Home{Output: files, Ledger: l}
	if last, err := report.ReadSummary(ctx, s, o.report.SummaryName()); err == nil { // else nothing is known of them
		home.Before = last.Files
	}
	o.close = append(o.close, home.Close)
	o.engine.Store, o.engine.Ledger = s, l
	o.report.Output, o.report.Ledger, o.report.Tensors, o.results.Tensors = files, l, home, home
	if err := o.results.Mend(ctx, l, o.alone()); err != nil {
		return err
	}
	if !o.reading {
		if err := home.Check(ctx, o.looks()); err != nil {
			return err
		}
	}
	if o.engine.Earlier, err = o.results.Forget(ctx, l, o.retry); err != nil {
		return err
	}
	if err := o.openBook(ctx, s, l); err != nil {
		return err
	}
	return o.keepIDs(ctx)
}

// openBook opens the readings of an output, which have keys of their own.
func (o *output) openBook(ctx context.Context, s store.Store, l *ledger.Ledger) error {
	if err := o.recall.looks(ctx, s, l); err != nil {
		return err
	}
	book, err := engine.OpenBook(ctx, s, &o.engine.Rules, o.recall.start.Shown)
	if err != nil {
		return err
	}
	o.engine.Book = book
	o.close = append(o.close, book.Close)
	if o.alone() {
		if err := book.Mend(ctx); err != nil {
			return err
		}
	}
	if o.retry {
		book.Retry()
	}
	earlier := len(o.engine.Rules.Earlier) > 0
	if o.report.Looks = book.Names(); book.Looks() || earlier {
		o.report.Recall = book.Recall
	}
	if earlier { // readings in results count where the job has their measures
		o.report.Looks = append(o.report.Looks, "earlier")
	}
	return nil
}

// alone reports whether nobody else uses the ledger: other shards do, and whoever only reads has no lock.
func (o *output) alone() bool { return !o.reading && o.report.Part == "" }

// looks says how closely to look at what is there. Who only looks at an output reads no videos.
func (o *output) looks() fingerprints.Look {
	if o.reading {
		return fingerprints.LookAtSizes
	}
	return o.look
}

// keepIDs lets rows of media files keep the ids that they have in the output. Earlier releases gave files of one name one id.
func (o *output) keepIDs(ctx context.Context) error {
	if !o.sharesNames() {
		return nil
	}
	ids, err := audit.IDs(ctx, o.engine.Store)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, store.ErrChanged) {
		return err // somebody else has finished a run meanwhile, see again
	}
	if err != nil {
		slog.Warn("ids of the output cannot be read: media files of one name get new ids", "error", err)
	}
	o.engine.Rules.IDs = ids
	return ctx.Err()
}

// lock takes the lock of this run, or of this shard, on the output. Shards of one job may share an output;
// anything else that is at work there (a run over all rows, a job cut into another number of shards) is an
// error that names it.
func (o *output) lock(ctx context.Context, s store.Store) (release func(), err error) {
	mine := o.lockName()
	if release, err = s.Lock(ctx, mine, "latentbeam run"); err != nil {
		return nil, err
	}
	// Two that come at the same time both hold their own lock here, so at least one of them sees the other.
	if o.free, err = o.othersLocks(ctx, s); err == nil {
		for _, name := range o.free {
			if err = s.Held(ctx, name); err != nil {
				break
			}
		}
	}
	if err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// refuseUnsafe refuses a job of several processes on a store that protects no run from another one.
func (o *output) refuseUnsafe(s store.Store) error {
	broken := open.Broken(s)
	if len(broken) == 0 {
		return nil
	}
	if o.several {
		return fault.Usage(fmt.Errorf("output %s: %s: %s; with output.unsafe_store one process may write there, not the shards or workers "+
			"of a job: take another store (docs/buckets.md)", s.URL(), broken[0].Name, broken[0].Found))
	}
	for _, p := range broken {
		slog.Warn("the store of the output is not safe, so a second run on it would not be noticed", "output", s.URL(), "promise", p.Name,
			"found", p.Found)
	}
	return nil
}

// othersLocks lists the locks of runs that may not work beside this one.
func (o *output) othersLocks(ctx context.Context, s store.Store) (names []string, err error) {
	files, err := store.Names(ctx, s, "", store.Flat)
	for _, name := range files {
		if strings.HasPrefix(name, ".") && strings.HasSuffix(name, "lock") && report.Layout(name) != report.Layout(o.report.Part) {
			names = append(names, name)
		}
	}
	return names, err
}

// lockName is the lock of this run, or of this shard.
func (o *output) lockName() string { return "." + o.report.Part + "lock" }

// awaitPause is the time between two looks at the locks of an output.
const awaitPause = time.Second

// Await waits until no run holds a lock for which a job would have to wait. waiting is told once who does.
func Await(ctx context.Context, cfg *config.Config, o Options, waiting func(who error)) error {
	s, err := o.outputs.read(ctx, cfg.Output.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer s.Close()
	of := &output{report: &report.Job{Part: part(o)}}
	for told := false; ; {
		names, err := of.othersLocks(ctx, s)
		var locked *store.LockedError
		for _, name := range append(names, of.lockName()) {
			if err == nil {
				err = s.Held(ctx, name)
			}
		}
		if !errors.As(err, &locked) {
			return err
		}
		if !told {
			waiting(locked)
			told = true
		}
		select {
		case <-time.After(awaitPause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

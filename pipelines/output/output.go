// Package output opens the output of a job: its store with a lock, its ledger, what its tables and files say of earlier runs, and the
// keys that earlier releases gave to its rows.
package output

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
	"latentbeam/pipelines/jobfile"
	"latentbeam/pipelines/reuse"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// Output is the output of a job. It opens it, to be written (Attach) or only to be read (Peek), for the engine, the report and
// whoever reuses results.
type Output struct {
	Stores      Stores
	Config      *config.Config
	Specs       []stages.Spec  // the catalogue
	Start       *jobfile.Start // of the run: it gets what was found of earlier releases
	Engine      *engine.Engine
	Report      *report.Job
	Limits      stages.Limits // of the job's guards
	ScoreOnly   bool          // measures look at finished rows alone
	Retry       bool          // forget failed rows
	Closely     bool          // a run compares all files with their digests
	Several     bool          // other processes of the job write there too
	SharesNames func() bool   // of media files
	Results     reuse.Results // of earlier runs, as far as they count, once it is open

	reading bool     // it is open to be read
	free    []string // locks of others that nobody holds while this run holds its own
	close   []func()
}

// Attach opens the output for writing and takes its lock; a second run on it gets an error that names the first. Detach releases
// it. before, where not nil, is called with the locked store, before anything is read of it.
func (o *Output) Attach(ctx context.Context, before func(store.Store) error) error {
	s, err := o.open(ctx, o.Stores.Write)
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
func (o *Output) open(ctx context.Context, open func(context.Context, string) (store.Store, error)) (store.Store, error) {
	s, err := open(ctx, o.Config.Output.Path)
	if err == nil {
		o.close = append(o.close, func() { s.Close() })
	}
	return s, err
}

// Peek opens an output that is already there, only to read it; without one there is nothing done yet.
func (o *Output) Peek(ctx context.Context) error {
	s, err := o.open(ctx, o.Stores.Read)
	if errors.Is(err, fs.ErrNotExist) {
		o.Forget() // one that was there before
		return nil
	}
	if err != nil {
		return err
	}
	o.reading = true
	return o.use(ctx, s)
}

// Forget lets the job be one without an output.
func (o *Output) Forget() { o.Engine.Store, o.Engine.Ledger = nil, nil }

// Reading reports whether the output is open to be read only.
func (o *Output) Reading() bool { return o.reading }

// Free returns the locks of others that nobody holds while this run holds its own.
func (o *Output) Free() []string { return o.free }

// maxLooks bounds how often an output is read anew that somebody else changes meanwhile.
const maxLooks = 5

// Again retries the read when a finishing run has removed a file meanwhile. A reader holds no lock.
func (o *Output) Again(read func() error) (err error) {
	for range maxLooks {
		if err = read(); !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, store.ErrChanged) {
			return err
		}
		o.Detach()
	}
	return err
}

// Detach gives back the output, so that it may be opened again.
func (o *Output) Detach() {
	o.Release()
	o.Engine.Rules.Known, o.Engine.Book, o.Report.Recall = nil, nil, nil
}

// Release closes what is open of the output.
func (o *Output) Release() {
	for i := len(o.close) - 1; i >= 0; i-- {
		o.close[i]()
	}
	o.close, o.reading = nil, false
}

// use opens the ledger of the store.
func (o *Output) use(ctx context.Context, s store.Store) error {
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
	if last, err := report.ReadSummary(ctx, s, o.Report.SummaryName()); err == nil { // else nothing is known of them
		home.Before = last.Files
	}
	o.close = append(o.close, home.Close)
	o.Engine.Store, o.Engine.Ledger = s, l
	o.Results.Engine, o.Results.Look, o.Results.Limits = o.Engine, o.Looks, o.Limits
	o.Report.Output, o.Report.Ledger, o.Report.Tensors, o.Results.Tensors = files, l, home, home
	if err := o.Results.Mend(ctx, l, o.Alone()); err != nil {
		return err
	}
	if !o.reading {
		if err := home.Check(ctx, o.Looks()); err != nil {
			return err
		}
	}
	if o.Engine.Earlier, err = o.Results.Forget(ctx, l, o.Retry); err != nil {
		return err
	}
	if err := o.openBook(ctx, s, l); err != nil {
		return err
	}
	return o.keepIDs(ctx)
}

// openBook opens the readings of an output, which have keys of their own.
func (o *Output) openBook(ctx context.Context, s store.Store, l *ledger.Ledger) error {
	recall := recollection{config: o.Config, specs: o.Specs, engine: o.Engine, start: o.Start, scoreOnly: o.ScoreOnly}
	if err := recall.looks(ctx, s, l); err != nil {
		return err
	}
	book, err := engine.OpenBook(ctx, s, &o.Engine.Rules, o.Start.Shown)
	if err != nil {
		return err
	}
	o.Engine.Book = book
	o.close = append(o.close, book.Close)
	if o.Alone() {
		if err := book.Mend(ctx); err != nil {
			return err
		}
	}
	if o.Retry {
		book.Retry()
	}
	earlier := len(o.Engine.Rules.Earlier) > 0
	if o.Report.Looks = book.Names(); book.Looks() || earlier {
		o.Report.Recall = book.Recall
	}
	if earlier { // readings in results count where the job has their measures
		o.Report.Looks = append(o.Report.Looks, "earlier")
	}
	return nil
}

// Alone reports whether nobody else uses the ledger: other shards do, and whoever only reads has no lock.
func (o *Output) Alone() bool { return !o.reading && o.Report.Part == "" }

// Looks says how closely to look at what is there. Who only looks at an output reads no videos.
func (o *Output) Looks() fingerprints.Look {
	if o.reading {
		return fingerprints.LookAtSizes
	}
	if o.Closely {
		return fingerprints.LookAtAll
	}
	return fingerprints.LookAtMarks
}

// keepIDs lets rows of media files keep the ids that they have in the output. Earlier releases gave files of one name one id.
func (o *Output) keepIDs(ctx context.Context) error {
	if !o.SharesNames() {
		return nil
	}
	ids, err := audit.IDs(ctx, o.Engine.Store)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, store.ErrChanged) {
		return err // somebody else has finished a run meanwhile, see again
	}
	if err != nil {
		slog.Warn("ids of the output cannot be read: media files of one name get new ids", "error", err)
	}
	o.Engine.Rules.IDs = ids
	return ctx.Err()
}

// lock takes the lock of this run, or of this shard, on the output. Shards of one job may share an output;
// anything else that is at work there (a run over all rows, a job cut into another number of shards) is an
// error that names it.
func (o *Output) lock(ctx context.Context, s store.Store) (release func(), err error) {
	mine := o.LockName()
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
func (o *Output) refuseUnsafe(s store.Store) error {
	broken := open.Broken(s)
	if len(broken) == 0 {
		return nil
	}
	if o.Several {
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
func (o *Output) othersLocks(ctx context.Context, s store.Store) (names []string, err error) {
	files, err := store.Names(ctx, s, "", store.Flat)
	for _, name := range files {
		if strings.HasPrefix(name, ".") && strings.HasSuffix(name, "lock") && report.Layout(name) != report.Layout(o.Report.Part) {
			names = append(names, name)
		}
	}
	return names, err
}

// LockName is the lock of this run, or of this shard.
func (o *Output) LockName() string { return "." + o.Report.Part + "lock" }

// awaitPause is the time between two looks at the locks of an output.
const awaitPause = time.Second

// Await waits until no run holds a lock for which a job, or its shard of this part, would have to wait. waiting is told once who does.
func Await(ctx context.Context, url, part string, waiting func(who error)) error {
	s, err := Stores{}.Read(ctx, url)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer s.Close()
	of := &Output{Report: &report.Job{Part: part}}
	for told := false; ; {
		names, err := of.othersLocks(ctx, s)
		var locked *store.LockedError
		for _, name := range append(names, of.LockName()) {
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

// Mend finds all damage of an output in which a run has found some, and replaces what can be replaced: rows that lose their results
// are new then. table says that a table of tensors is damaged.
func (o *Output) Mend(ctx context.Context, table bool) error {
	l := o.Engine.Ledger
	if err := l.Verify(ctx); err != nil { // else damage would be found one by one
		return err
	}
	if err := o.Results.Mend(ctx, l, o.Alone()); err != nil {
		return err
	}
	o.Report.Tensors.Close() // the tables may be others now
	if !table {
		return nil
	}
	err := o.Report.Tensors.DoubtAll(ctx)
	if err == nil {
		o.Engine.Earlier, err = o.Results.ForgetDamaged(ctx, l)
	}
	return err
}

// IsDamage reports whether a run that computed all it could, and ended with err, found damage that was not known before: known records
// of the ledger were lost then. table says that it is in a table of tensors.
func (o *Output) IsDamage(err error, known int) (found, table bool) {
	var tables *tensors.DamagedTableError
	if errors.As(err, &tables) {
		return true, true
	}
	var records *ledger.DamagedError
	return o.Engine.Ledger.Lost() > known && (err == nil || errors.As(err, &records)), false
}

// Unsafe lists the promises that the store of the output does not keep.
func (o *Output) Unsafe() []store.Promise { return open.Broken(o.Engine.Store) }

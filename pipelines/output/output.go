// Package output opens the output of a job: it locks the store, opens the ledger, checks the results of earlier runs, and finds rows
// that have keys of earlier releases.
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

// Output is the output of a job. Attach opens it for writing and Peek for reading. Both set the fields of Engine, Report and
// Results that depend on the output.
type Output struct {
	Stores      Stores
	Config      *config.Config
	Specs       []stages.Spec  // the catalogue
	Start       *jobfile.Start // start of the run; opening the output sets Looks and Shown
	Engine      *engine.Engine
	Report      *report.Job
	Limits      stages.Limits // limits of the job's guards
	ScoreOnly   bool          // the run only computes measures of finished rows
	Retry       bool          // computes failed rows again
	CheckAll    bool          // a run compares all files with their digests
	Several     bool          // other processes of the job also write to the output
	SharesNames func() bool   // reports whether media files of the input have equal names
	Results     reuse.Results // results of earlier runs; valid when the output is open

	reading bool     // open for reading only
	free    []string // names of other runs' locks that no process holds
	close   []func() // closes what is open, called in reverse order
}

// Attach opens the output for writing and acquires its lock. If another run holds a lock that excludes this one, the error names that
// run. Detach releases the lock. Attach calls before, if not nil, with the locked store before it reads anything from it.
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
	if err := refuseForeign(ctx, s); err != nil {
		return err
	}
	if before != nil {
		if err := before(s); err != nil {
			return err
		}
	}
	return o.load(ctx, s)
}

// open opens the store of the output with the function open.
func (o *Output) open(ctx context.Context, open func(context.Context, string) (store.Store, error)) (store.Store, error) {
	s, err := open(ctx, o.Config.Output.Path)
	if err == nil {
		o.close = append(o.close, func() { s.Close() })
	}
	return s, err
}

// Peek opens the output for reading. If the output does not exist, Peek returns nil and the job has no finished rows.
func (o *Output) Peek(ctx context.Context) error {
	s, err := o.open(ctx, o.Stores.Read)
	if errors.Is(err, fs.ErrNotExist) {
		o.Forget() // the output may have existed at an earlier call
		return nil
	}
	if err != nil {
		return err
	}
	o.reading = true
	if err := refuseForeign(ctx, s); err != nil {
		return err
	}
	return o.load(ctx, s)
}

// Forget removes the store and the ledger from the engine, as if the output did not exist.
func (o *Output) Forget() { o.Engine.Store, o.Engine.Ledger = nil, nil }

// Reading reports whether the output is open for reading only.
func (o *Output) Reading() bool { return o.reading }

// FreeLocks returns the names of other runs' locks that no process holds.
func (o *Output) FreeLocks() []string { return o.free }

// maxReads limits how often Again calls its function.
const maxReads = 5

// Again calls read, and calls it again if a file was removed or changed meanwhile. This can happen because a reader holds no lock:
// another run may finish at the same time.
func (o *Output) Again(read func() error) (err error) {
	for range maxReads {
		if err = read(); !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, store.ErrChanged) {
			return err
		}
		o.Detach()
	}
	return err
}

// Detach closes the output, so that it can be opened again.
func (o *Output) Detach() {
	o.Release()
	o.Engine.Rules.Known, o.Engine.Book, o.Report.Recall = nil, nil, nil
}

// Release closes the store, the ledger and the tables, and releases the lock.
func (o *Output) Release() {
	for i := len(o.close) - 1; i >= 0; i-- {
		o.close[i]()
	}
	o.close, o.reading = nil, false
}

// load opens the ledger and the tables of the store, checks the results of earlier runs, and sets the fields that depend on them.
func (o *Output) load(ctx context.Context, s store.Store) error {
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
	if last, err := report.ReadSummary(ctx, s, o.Report.SummaryName()); err == nil { // without a summary the tables are not known
		home.KnownSizes = last.Files
	}
	o.close = append(o.close, home.Close)
	o.Engine.Store, o.Engine.Ledger = s, l
	o.Results.Engine, o.Results.Depth, o.Results.Limits = o.Engine, o.CheckDepth, o.Limits
	o.Report.Output, o.Report.Ledger, o.Report.Tensors, o.Results.Tensors = files, l, home, home
	if err := o.Results.Mend(ctx, l, o.Alone()); err != nil {
		return err
	}
	if !o.reading {
		if err := home.Check(ctx, o.CheckDepth()); err != nil {
			return err
		}
	}
	if o.Engine.Earlier, err = o.Results.Forget(ctx, l, o.Retry); err != nil {
		return err
	}
	if err := o.openBook(ctx, s, l); err != nil {
		return err
	}
	return o.retainIDs(ctx)
}

// openBook opens the book of the output, which holds readings under keys of their own.
func (o *Output) openBook(ctx context.Context, s store.Store, l *ledger.Ledger) error {
	earlierKeys := earlierKeys{config: o.Config, specs: o.Specs, engine: o.Engine, start: o.Start, scoreOnly: o.ScoreOnly}
	if err := earlierKeys.find(ctx, s, l); err != nil {
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
	if earlier { // results of earlier releases contain readings, which count if the job has their measures
		o.Report.Looks = append(o.Report.Looks, "earlier")
	}
	return nil
}

// Alone reports whether no other process uses the ledger. It is false for a shard, and for a reader, which has no lock.
func (o *Output) Alone() bool { return !o.reading && o.Report.Part == "" }

// CheckDepth returns how thoroughly files of the output are checked. A reader checks only sizes and reads no videos.
func (o *Output) CheckDepth() fingerprints.Look {
	if o.reading {
		return fingerprints.LookAtSizes
	}
	if o.CheckAll {
		return fingerprints.LookAtAll
	}
	return fingerprints.LookAtMarks
}

// retainIDs makes rows of media files retain the ids that they have in the output. Earlier releases gave files with the same name
// the same id.
func (o *Output) retainIDs(ctx context.Context) error {
	if !o.SharesNames() {
		return nil
	}
	ids, err := audit.IDs(ctx, o.Engine.Store)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, store.ErrChanged) {
		return err // another run has finished meanwhile; see Again
	}
	if err != nil {
		slog.Warn("ids of the output cannot be read: media files of one name get new ids", "error", err)
	}
	o.Engine.Rules.IDs = ids
	return ctx.Err()
}

// lock acquires the lock of this run or shard on the output. Shards of one job may work at the same time. If any other run
// holds a lock (a run without shards, or with another number of shards), lock returns an error that names that run.
func (o *Output) lock(ctx context.Context, s store.Store) (release func(), err error) {
	if release, err = s.Lock(ctx, o.LockName(), "latentbeam run"); err != nil {
		return nil, err
	}
	// If two runs start at the same time, both hold their own lock here, so at least one of them sees the other's.
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

// refuseUnsafe returns an error for a job of several processes on a store whose locks do not work. A job of one process gets a
// warning.
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

// othersLocks lists the locks of runs that exclude this one.
func (o *Output) othersLocks(ctx context.Context, s store.Store) (names []string, err error) {
	files, err := store.Names(ctx, s, "", store.Flat)
	for _, name := range files {
		if strings.HasPrefix(name, ".") && strings.HasSuffix(name, "lock") && report.Layout(name) != report.Layout(o.Report.Part) {
			names = append(names, name)
		}
	}
	return names, err
}

// LockName returns the name of the lock of this run or shard.
func (o *Output) LockName() string { return "." + o.Report.Part + "lock" }

// awaitPause is the time between two checks of the locks of an output.
const awaitPause = time.Second

// Await waits until no run holds a lock that excludes a run of the given part; "": a run without shards. It calls waiting once, with
// the error that names the holder.
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
	for notified := false; ; {
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
		if !notified {
			waiting(locked)
			notified = true
		}
		select {
		case <-time.After(awaitPause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Mend checks the whole ledger after a run has found damage, and repairs what it can. Rows that lost their results become new rows.
// table says that a table of tensors is damaged, so that Mend checks all tables too.
func (o *Output) Mend(ctx context.Context, table bool) error {
	l := o.Engine.Ledger
	if err := l.Verify(ctx); err != nil { // finds all damage at once
		return err
	}
	if err := o.Results.Mend(ctx, l, o.Alone()); err != nil {
		return err
	}
	o.Report.Tensors.Close() // the tables may have changed
	if !table {
		return nil
	}
	err := o.Report.Tensors.DamageAll(ctx)
	if err == nil {
		o.Engine.Earlier, err = o.Results.ForgetDamaged(ctx, l)
	}
	return err
}

// IsDamage reports whether a run that ended with err found new damage. known is the number of lost ledger records known before the
// run. table reports damage in a table of tensors.
func (o *Output) IsDamage(err error, known int) (found, table bool) {
	var tables *tensors.DamagedTableError
	if errors.As(err, &tables) {
		return true, true
	}
	var records *ledger.DamagedError
	return o.Engine.Ledger.Lost() > known && (err == nil || errors.As(err, &records)), false
}

// Unsafe lists the guarantees that the store of the output does not give.
func (o *Output) Unsafe() []store.Promise { return open.Broken(o.Engine.Store) }

package output

import (
	"context"

	"latentbeam/internal/engine"
	"latentbeam/internal/engine/keys"
	"latentbeam/internal/storage/ledger"
	"latentbeam/schemas"
)

// Share opens the output for a worker. It acquires no lock, because the submitter holds the lock. looks are the lists of stages
// that only measure which may be part of keys in the output. since is the generation of the ledger at the start of the job.
func (o *Output) Share(ctx context.Context, looks []keys.Looks, since uint32) error {
	s, err := o.open(ctx, o.Stores.Write)
	if err != nil {
		return err
	}
	l, err := ledger.Open(ctx, s)
	if err != nil {
		return err
	}
	o.OnRelease(l.Close)
	e := o.Engine
	e.Store, e.Ledger = s, l
	e.Earlier = earlierThan(l, since)
	e.Rules.Earlier = looks
	if err := e.Rules.Seal(); err != nil {
		return err
	}
	if e.Book, err = engine.OpenBook(ctx, s, &e.Rules, nil); err != nil {
		return err
	}
	o.OnRelease(e.Book.Close)
	return nil
}

// OnRelease makes Release call f before it closes what is open now.
func (o *Output) OnRelease(f func()) { o.close = append(o.close, f) }

// earlierThan returns a function that reports whether a run before the generation since may have published files of a row.
func earlierThan(l *ledger.Ledger, since uint32) func(schemas.Key) bool {
	return func(key schemas.Key) bool {
		if l.Lost() > 0 || len(l.Damaged()) > 0 {
			return true
		}
		_, any, err := l.Lookup(ledger.Key(key))
		if err != nil || any != ledger.Done {
			return false
		}
		own, err := l.LookupSince(ledger.Key(key), since)
		return err == nil && own == ledger.Absent
	}
}

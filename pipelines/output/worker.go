package output

import (
	"context"

	"latentbeam/internal/engine"
	"latentbeam/internal/engine/keys"
	"latentbeam/internal/storage/ledger"
	"latentbeam/schemas"
)

// Share opens the output for a worker: the process that has submitted the job holds the lock. looks are the lists under which the
// output may have rows, since the generation of the ledger with which the job began.
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

// OnRelease lets Release call end before it closes what is open now.
func (o *Output) OnRelease(end func()) { o.close = append(o.close, end) }

// earlierThan says whether a run before a generation of the ledger has published files of a row.
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

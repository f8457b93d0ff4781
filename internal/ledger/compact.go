package ledger

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"latentbeam/internal/store"
	"latentbeam/schemas/fault"
)

// compactBytes is how much Compact gathers for one new segment, in bytes.
const (
	compactBytes = 8 << 20
	compactSlack = 1 << 20 // room for the last record, so that the buffer seldom grows
)

// Compact rewrites all records that count into few new segments and removes the old ones. keep says
// for each record, blobs without data, whether it stays and whether its blobs do. A kill at any point
// does no harm: new segments are later than old ones, and what was to go is gone or still whole. Refs
// from before are no longer valid. No other process may use the ledger meanwhile: the caller holds the
// lock on the output.
func (l *Ledger) Compact(ctx context.Context, keep func(Record) (keepRecord, keepBlobs bool)) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	l.mu.RLock()
	end := l.names.next
	l.mu.RUnlock()
	c := &compaction{ledger: l, buffer: make([]byte, 0, compactBytes+compactSlack)}
	err := l.each(ctx, newReader(), func(ref Ref, r *reader, h header, body []byte) error {
		return c.visit(ctx, keep, ref, r, h, body)
	})
	if err == nil {
		err = c.flush(ctx)
	}
	if c.next != nil {
		l.abandon([]*part{c.next})
	}
	if err != nil {
		return fmt.Errorf("compact ledger: %w", err)
	}
	fault.Point(fault.LedgerCompactBeforeRemove)
	return l.removeBelow(ctx, end)
}

// compaction gathers records for the next segment.
type compaction struct {
	ledger *Ledger
	next   *part // nil between segments
	old    []Ref // where the records of next are now
	buffer []byte
}

// visit takes one record that counts.
func (c *compaction) visit(ctx context.Context, keep func(Record) (bool, bool), ref Ref, r *reader, h header,
	body []byte) error {
	rec, entries, err := r.record(ref.offset(), h, body)
	if err != nil {
		return err
	}
	keepRecord, keepBlobs := keep(rec)
	if !keepRecord {
		return c.move(h.key, ref, gone)
	}
	if !keepBlobs {
		rec.Blobs, entries = nil, nil
	}
	for i, e := range entries {
		if rec.Blobs[i].Data, err = r.blob(e); err != nil {
			return err
		}
	}
	if c.next == nil {
		if c.next, err = c.ledger.newPart(c.buffer); err != nil {
			return err
		}
	}
	c.next.add(&rec)
	c.old = append(c.old, ref)
	if len(c.next.seg.data) < compactBytes {
		return nil
	}
	return c.flush(ctx)
}

// flush publishes what is gathered and points the index at it.
func (c *compaction) flush(ctx context.Context) error {
	if c.next == nil {
		return nil
	}
	p := c.next
	c.buffer, c.next = p.seg.seal(), nil
	if err := c.ledger.store.Put(ctx, store.Object{Name: p.name, Data: c.buffer}); err != nil {
		c.ledger.abandon([]*part{p})
		return err
	}
	fault.Point(fault.LedgerCompactSegmentPut)
	for i, at := range p.places {
		if err := c.move(at.key, c.old[i], at.ref); err != nil {
			return err
		}
	}
	c.old = c.old[:0]
	return nil
}

func (c *compaction) move(key Key, from, to Ref) error {
	c.ledger.mu.Lock()
	defer c.ledger.mu.Unlock()
	if !c.ledger.index.move(key.fingerprint(), from, to) {
		return fmt.Errorf("the index has lost %v", key)
	}
	return nil
}

// removeBelow removes the segments with numbers below end.
func (l *Ledger) removeBelow(ctx context.Context, end uint32) error {
	for {
		l.mu.RLock()
		number := l.oldest
		l.mu.RUnlock()
		if number == end {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("compact ledger: %w", err)
		}
		name := l.names.name(number)
		l.files.forget(name)
		err := l.store.Remove(ctx, name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("compact ledger: %w", err)
		}
		l.mu.Lock()
		l.oldest++
		delete(l.missing, number)
		l.mu.Unlock()
		fault.Point(fault.LedgerCompactRemoved)
	}
}

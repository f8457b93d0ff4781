package ledger

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"latentbeam/internal/storage/store"
	"latentbeam/schemas/fault"
)

// compactBytes is how many bytes Compact gathers for one new segment.
const (
	compactBytes = 8 << 20
	compactSlack = 1 << 20 // room for the last record, so that the buffer rarely grows
)

// Compact rewrites all current records into a few new segments and removes the old ones. keep decides for each record, which
// has its blobs without data, whether the record and its blobs are kept. A kill at any point does no harm: new segments are
// later than old ones, and removed records are either still complete or gone. Earlier Refs become invalid. The caller must hold
// the lock on the output, so that no other process uses the ledger.
func (l *Ledger) Compact(ctx context.Context, keep func(Record) (keepRecord, keepBlobs bool)) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	l.mu.RLock()
	end := l.names.next
	l.mu.RUnlock()
	err := l.rewrite(ctx, func(c *compaction) error {
		return l.each(ctx, c.reader, func(ref Ref, rec Record, entries []blobEntry) error {
			return c.visit(ctx, keep, ref, rec, entries)
		})
	})
	if err != nil {
		return fmt.Errorf("compact ledger: %w", err)
	}
	l.loseIf(func(ref Ref) bool { return ref.segment() < end }) // records that were not found there any more
	fault.Point(fault.LedgerCompactBeforeRemove)
	return l.removeBelow(ctx, end)
}

// rewrite calls fn, which gathers records into new segments, and publishes the segments.
func (l *Ledger) rewrite(ctx context.Context, fn func(*compaction) error) error {
	c := &compaction{ledger: l, reader: newReader(), buffer: make([]byte, 0, compactBytes+compactSlack)}
	err := fn(c)
	if err == nil {
		err = c.flush(ctx)
	}
	if c.next != nil {
		l.abandon([]*draft{c.next})
	}
	return err
}

// compaction gathers records for the next segment.
type compaction struct {
	ledger *Ledger
	reader *segmentReader // positioned at the current segment
	next   *draft         // nil between segments
	old    []Ref          // current positions of the records in next
	buffer []byte
}

// visit gathers one current record. It skips a record that is found to be damaged.
func (c *compaction) visit(ctx context.Context, keep func(Record) (bool, bool), ref Ref, rec Record,
	entries []blobEntry) (err error) {
	keepRecord, keepBlobs := keep(rec)
	if !keepRecord {
		c.move(rec.Key, ref, gone)
		return nil
	}
	if !keepBlobs {
		rec.Blobs, entries = nil, nil
	}
	for i, e := range entries {
		rec.Blobs[i].Data, err = c.reader.blob(e)
		if isDamage(err) {
			c.ledger.lose(rec.Key.fingerprint(), ref)
			return nil
		}
		if err != nil {
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

// flush publishes the gathered records and updates the index.
func (c *compaction) flush(ctx context.Context) error {
	if c.next == nil {
		return nil
	}
	p := c.next
	c.buffer, c.next = p.seg.seal(), nil
	if err := c.ledger.store.Put(ctx, store.Object{Name: p.name, Data: c.buffer}); err != nil {
		c.ledger.abandon([]*draft{p})
		return err
	}
	fault.Point(fault.LedgerCompactSegmentPut)
	for i, at := range p.places {
		c.move(at.key, c.old[i], at.ref)
	}
	c.old = c.old[:0]
	return nil
}

// move records the new position of a record, unless it was found to be damaged meanwhile.
func (c *compaction) move(key Key, from, to Ref) {
	c.ledger.mu.Lock()
	defer c.ledger.mu.Unlock()
	c.ledger.index.move(key.fingerprint(), from, to)
}

// removeBelow removes the segments with numbers less than end.
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
		if err := l.remove(ctx, number); err != nil {
			return fmt.Errorf("compact ledger: %w", err)
		}
		l.mu.Lock()
		l.oldest++
		delete(l.missing, number)
		l.mu.Unlock()
	}
}

// remove removes a segment and marks it as missing.
func (l *Ledger) remove(ctx context.Context, number uint32) error {
	name := l.names.name(number)
	l.files.discard(name)
	if err := l.store.Remove(ctx, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	l.mu.Lock()
	l.missing[number] = true
	delete(l.damaged, number)
	l.mu.Unlock()
	fault.Point(fault.LedgerCompactRemoved)
	return nil
}

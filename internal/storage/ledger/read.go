package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// readWindow is how much of a record is read first; most rows fit.
const readWindow = 4 << 10

// Read returns the record at ref. Its blobs have name and size but no data.
func (l *Ledger) Read(ref Ref) (rec Record, err error) {
	err = l.open(ref, readWindow, func(r *segmentReader, h header) error {
		body, err := r.body(ref.offset(), h)
		if err != nil {
			return err
		}
		rec, _, err = r.record(ref.offset(), h, body)
		return err
	})
	return rec, err
}

// ReadBlob returns the data of one blob of the record at ref.
func (l *Ledger) ReadBlob(ref Ref, name string) (data []byte, err error) {
	err = l.open(ref, readWindow, func(r *segmentReader, h header) error {
		body, err := r.body(ref.offset(), h)
		if err != nil {
			return err
		}
		entries, err := r.blobs(ref.offset(), h, body)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(entries, func(e blobEntry) bool { return e.name == name })
		if i < 0 {
			return fmt.Errorf("the record of %v has no blob %q", h.key, name)
		}
		data, err = r.blob(entries[i])
		return err
	})
	return data, err
}

// open is at for callers that do not hold the lock.
func (l *Ledger) open(ref Ref, window int, fn func(*segmentReader, header) error) error {
	if ref.status() == Absent {
		return errors.New("read ledger: no such record")
	}
	l.mu.RLock()
	name := l.names.name(ref.segment())
	removed := ref.segment() < l.oldest
	l.mu.RUnlock()
	if removed {
		return fmt.Errorf("read ledger: the record was in %s, which Compact has removed; look it up again",
			name)
	}
	if err := l.inFile(name, ref, window, fn); err != nil {
		return fatal(fmt.Errorf("read ledger: %w", err))
	}
	return nil
}

// record decodes the body of the record at offset; Row is a copy.
func (r *segmentReader) record(offset int64, h header, body []byte) (Record, []blobEntry, error) {
	entries, err := r.blobs(offset, h, body)
	if err != nil {
		return Record{}, nil, err
	}
	rec := Record{Key: h.key, Status: h.status, Row: slices.Clone(body[:h.rowBytes])}
	for _, e := range entries {
		rec.Blobs = append(rec.Blobs, Blob{Name: e.name, Size: e.size})
	}
	return rec, entries, nil
}

// Each calls fn for every current record, in the order of writing; blobs have no data. It is the fast way to read all records.
// Records that are committed meanwhile may be missing. It stops at fn's first error and returns it.
func (l *Ledger) Each(ctx context.Context, fn func(Ref, Record) error) error {
	l.writing.RLock()
	defer l.writing.RUnlock()
	return l.each(ctx, newReader(), func(ref Ref, rec Record, _ []blobEntry) error { return fn(ref, rec) })
}

// segments calls fn for the segments that exist now.
func (l *Ledger) segments(ctx context.Context, fn func(number uint32, name string) error) error {
	l.mu.RLock()
	first, end := l.oldest, l.names.next
	l.mu.RUnlock()
	for number := first; number < end; number++ {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("read ledger: %w", err)
		}
		l.mu.RLock()
		name, missing := l.names.name(number), l.missing[number]
		l.mu.RUnlock()
		if missing {
			continue
		}
		if err := fn(number, name); err != nil {
			return err
		}
	}
	return nil
}

// each scans the segments that exist now and skips records that are not current.
func (l *Ledger) each(ctx context.Context, r *segmentReader, fn func(Ref, Record, []blobEntry) error) error {
	return l.segments(ctx, func(number uint32, name string) error {
		return l.counting(ctx, r, number, name, fn)
	})
}

// counting calls fn for the current records of a segment. Of a damaged segment these are the intact ones; if the damage is
// found only now, the remaining ones.
func (l *Ledger) counting(ctx context.Context, r *segmentReader, number uint32, name string,
	fn func(Ref, Record, []blobEntry) error) error {
	l.mu.RLock()
	d := l.damaged[number]
	l.mu.RUnlock()
	next := int64(0)
	var failed error // error of fn
	visit := func(offset int64, h header, body []byte) error {
		next = offset + 1
		ref := pack(number, offset, h.status)
		l.mu.RLock()
		counts := l.index.isCurrent(h.key.fingerprint(), ref)
		l.mu.RUnlock()
		if !counts {
			return nil
		}
		rec, entries, err := r.record(offset, h, body)
		if err != nil {
			return err
		}
		failed = fn(ref, rec, entries)
		return failed
	}
	return l.inSegment(ctx, r, name, func() error {
		if d == nil {
			err := r.scan(visit)
			var why *DamagedError
			if failed != nil || !errors.As(err, &why) {
				return err
			}
			if d, err = l.examine(r, number, why); err != nil {
				return err
			}
		}
		for _, offset := range d.offsets {
			if offset < next {
				continue
			}
			err := r.visit(offset, visit)
			if failed != nil || unlessDamage(err) != nil {
				return err
			}
			if err != nil {
				l.loseIf(func(ref Ref) bool { return ref.segment() == number && ref.offset() == offset })
			}
		}
		return nil
	})
}

// visit calls fn for the record at offset.
func (r *segmentReader) visit(offset int64, fn func(offset int64, h header, body []byte) error) error {
	h, err := r.header(offset)
	if err != nil {
		return err
	}
	body, err := r.body(offset, h)
	if err != nil {
		return err
	}
	return fn(offset, h, body)
}

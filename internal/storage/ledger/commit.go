package ledger

import (
	"context"
	"fmt"

	"latentbeam/internal/storage/store"
	"latentbeam/schemas/fault"
)

// Commit records all recs at once. When it returns nil they are on disk, with one set of fsyncs; after a crash either all or
// none are there. (A commit over 1 GiB is divided; then this is true for each part.) The files that a record refers to must
// have been published before. The caller may reuse recs. If a record is invalid, Commit returns an error before it writes
// anything.
func (l *Ledger) Commit(ctx context.Context, recs []Record) error {
	for i := range recs {
		if err := recs[i].check(); err != nil {
			return fault.Row(err)
		}
	}
	if len(recs) == 0 {
		return nil
	}
	l.writing.RLock()
	defer l.writing.RUnlock()
	parts, err := l.encode(recs)
	if err != nil {
		return fault.Fatal(err)
	}
	objects := make([]store.Object, len(parts))
	for i, p := range parts {
		objects[i] = store.Object{Name: p.name, Data: p.seg.seal()}
	}
	fault.Point(fault.LedgerCommitBeforePut)
	if err := l.store.Put(ctx, objects...); err != nil {
		l.abandon(parts)
		return fmt.Errorf("commit %d records: %w", len(recs), err)
	}
	fault.Point(fault.LedgerCommitAfterPut)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range parts {
		for _, at := range p.places {
			if err := l.insert(at.key, at.ref); err != nil {
				return fatal(fmt.Errorf("commit %v: %w", at.key, err))
			}
		}
	}
	return nil
}

// draft is a segment that is being written, and the positions of its records.
type draft struct {
	name   string
	number uint32
	seg    *segment
	places []recordPlace
}

type recordPlace struct {
	key Key
	ref Ref
}

// encode encodes checked records into as many segments as they need.
func (l *Ledger) encode(recs []Record) (parts []*draft, err error) {
	for len(recs) > 0 {
		n, bytes := 0, 0
		for n < len(recs) && (n == 0 || bytes+recs[n].size() <= segmentBytesMax) {
			bytes += recs[n].size()
			n++
		}
		p, err := l.newPart(make([]byte, 0, headerBytes+bytes))
		if err != nil {
			l.abandon(parts)
			return nil, err
		}
		for i := range recs[:n] {
			p.add(&recs[i])
		}
		parts, recs = append(parts, p), recs[n:]
	}
	return parts, nil
}

// newPart starts the next segment of this process in buffer.
func (l *Ledger) newPart(buffer []byte) (*draft, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	number, err := l.names.add(l.id)
	if err != nil {
		return nil, err
	}
	p := &draft{name: l.id.name(l.folder), number: number, seg: newSegment(buffer)}
	l.id.sequence++
	return p, nil
}

func (p *draft) add(rec *Record) {
	offset := p.seg.add(rec)
	p.places = append(p.places, recordPlace{rec.Key, pack(p.number, offset, rec.Status)})
}

// abandon records that the parts may not exist. A failed Put may have published some of them. The next Open finds these, and
// recording a result twice does no harm.
func (l *Ledger) abandon(parts []*draft) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range parts {
		l.missing[p.number] = true
	}
}

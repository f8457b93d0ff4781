package ledger

import (
	"context"
	"fmt"

	"latentbeam/internal/storage/store"
	"latentbeam/schemas/fault"
)

// Commit records all recs at once: they are on disk, with one set of fsyncs, when it returns nil,
// and after a crash either all are there or none (a commit over 1 GiB is cut; then that holds for
// each part). The files that a record speaks of must have been published before. The caller may
// reuse recs afterwards. A record that cannot be written is an error before anything is.
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

// draft is a segment being written and where its records will be.
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

// encode lays checked records out in as many segments as they need.
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

// newPart starts the next segment of this process; it is laid out in buffer.
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

// abandon notes that parts are not known to exist. A failed Put may have published some of them:
// the next Open finds these, whole, and results are the same however often they are recorded.
func (l *Ledger) abandon(parts []*draft) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range parts {
		l.missing[p.number] = true
	}
}

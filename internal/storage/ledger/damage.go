package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// DamagedError says that the content of a segment file has changed since it was written.
type DamagedError struct {
	Segment string // file name within the output
	Offset  int64  // offset at which reading stopped
	Why     string
}

// Error names the segment, the offset and what to do.
func (e *DamagedError) Error() string {
	return fmt.Sprintf("ledger segment %s is damaged at byte %d: %s; run again, what is lost is computed again",
		e.Segment, e.Offset, e.Why)
}

// isDamage reports whether err means a damaged file rather than a failed read.
func isDamage(err error) bool {
	if err == nil {
		return false
	}
	var d *DamagedError
	return errors.As(err, &d)
}

// Damage describes a damaged segment and its remaining records.
type Damage struct {
	Segment string // file name within the output
	Why     string // the first problem that was found
	Offset  int64  // offset of that problem
	Bytes   int64  // bytes of the file that belong to no intact record
	Saved   int    // number of intact records
	Lost    int    // number of lost records; -1: unknown, because the file's count is damaged

	offsets []int64 // offsets of the intact records, in order
}

// sound reports whether the record at an offset is intact.
func (d *Damage) sound(offset int64) bool {
	_, found := slices.BinarySearch(d.offsets, offset)
	return found
}

// salvage searches a damaged segment for intact records and calls fn for each. It trusts a length only in a record that is
// intact with all its blobs. After anything else it continues at the next offset at which a record can start.
func (r *segmentReader) salvage(why *DamagedError, fn func(offset int64, h header)) (*Damage, error) {
	d := &Damage{Segment: r.name, Why: why.Why, Offset: why.Offset, Bytes: r.size, Lost: -1}
	offset := int64(headerBytes)
	count, _, headerErr := r.fileHeader()
	switch {
	case headerErr == nil:
		d.Bytes -= headerBytes
	case isDamage(headerErr):
		offset = 0
	default:
		return nil, headerErr
	}
	for offset+recordHeaderBytes <= min(r.size, segmentFileBytesMax) {
		h, next, err := r.whole(offset)
		if err != nil {
			return nil, err
		}
		if next > 0 {
			fn(offset, h)
			d.offsets = append(d.offsets, offset)
			d.Bytes -= min(next, r.size) - offset
			offset = next
		} else {
			offset += recordAlign
		}
	}
	d.Saved = len(d.offsets)
	if headerErr == nil {
		d.Lost = max(int(count)-d.Saved, 0)
	}
	return d, nil
}

// whole reads a record with its blobs and returns the offset of the next one, 0 if this record is not intact.
func (r *segmentReader) whole(offset int64) (header, int64, error) {
	b, err := r.bytes(offset, recordHeaderBytes)
	if err != nil {
		return header{}, 0, unlessDamage(err)
	}
	h, why := parseHeader(b)
	if why != "" {
		return h, 0, nil
	}
	if err := r.checkRecord(offset, h); err != nil {
		return h, 0, unlessDamage(err)
	}
	end := offset + recordHeaderBytes + int64(h.rowBytes) + int64(h.tableBytes) + int64(h.blobBytes)
	return h, (end + recordAlign - 1) / recordAlign * recordAlign, nil
}

// unlessDamage returns nil if err means damage, otherwise err.
func unlessDamage(err error) error {
	if isDamage(err) {
		return nil
	}
	return err
}

// checkRecord checks row, blob table and blobs of a record.
func (r *segmentReader) checkRecord(offset int64, h header) error {
	body, err := r.body(offset, h)
	if err != nil {
		return err
	}
	entries, err := r.blobs(offset, h, body)
	for i := 0; err == nil && i < len(entries); i++ {
		err = r.checkBlob(entries[i])
	}
	return err
}

// examine finds the intact records of a segment and drops the others; r must point to the segment.
func (l *Ledger) examine(r *segmentReader, number uint32, why *DamagedError) (*Damage, error) {
	d, err := r.salvage(why, func(int64, header) {})
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	l.damaged[number] = d
	l.mu.Unlock()
	l.loseIf(func(ref Ref) bool { return ref.segment() == number && !d.sound(ref.offset()) })
	return d, nil
}

// loseIf drops the damaged records that which selects.
func (l *Ledger) loseIf(which func(Ref) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost += l.index.drop(which)
}

// lose drops a damaged record: its key is then absent.
func (l *Ledger) lose(fingerprint uint64, ref Ref) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.index.move(fingerprint, ref, gone) {
		l.lost++
	}
}

// Damaged lists the known damaged segments in order. Their intact records are used, the others are absent.
func (l *Ledger) Damaged() []Damage {
	l.mu.RLock()
	defer l.mu.RUnlock()
	var all []Damage
	for _, number := range l.damagedNumbers() {
		all = append(all, *l.damaged[number])
	}
	return all
}

// damagedNumbers lists the numbers of damaged segments. The caller holds the lock.
func (l *Ledger) damagedNumbers() []uint32 { return slices.Sorted(maps.Keys(l.damaged)) }

// Lost returns how many records were found to be damaged after Open. If it grows, finished rows must be computed again.
func (l *Ledger) Lost() int {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.lost
}

// Verify reads everything, including blobs, and drops damaged records.
func (l *Ledger) Verify(ctx context.Context) error {
	l.writing.RLock()
	defer l.writing.RUnlock()
	r := newReader()
	return l.segments(ctx, func(number uint32, name string) error {
		return l.inSegment(ctx, r, name, func() error {
			err := r.scan(func(offset int64, h header, _ []byte) error { return r.checkRecord(offset, h) })
			var why *DamagedError
			if errors.As(err, &why) {
				_, err = l.examine(r, number, why)
			}
			return err
		})
	})
}

// inSegment calls fn while r points to a segment.
func (l *Ledger) inSegment(ctx context.Context, r *segmentReader, name string, fn func() error) error {
	f, err := l.store.Open(ctx, name)
	if err != nil {
		return fmt.Errorf("open ledger segment %s: %w", name, err)
	}
	defer f.Close()
	r.reset(name, f, f.Size())
	return fn()
}

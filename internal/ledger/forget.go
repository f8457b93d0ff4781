package ledger

import (
	"context"
	"fmt"
)

// ForgetIf is Forget for the records for which forget answers true; it sees each record that counts, in
// the order they were written, blobs without data. It returns how many there were.
func (l *Ledger) ForgetIf(ctx context.Context, forget func(Record) bool) (int, error) {
	l.writing.Lock()
	defer l.writing.Unlock()
	n := 0
	err := l.each(ctx, newReader(), func(ref Ref, r *reader, h header, body []byte) error {
		rec, _, err := r.record(ref.offset(), h, body)
		if err != nil || !forget(rec) {
			return err
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if !l.index.move(h.key.fingerprint(), ref, gone) {
			return fmt.Errorf("the index has lost %v", h.key)
		}
		n++
		return nil
	})
	if err != nil {
		return n, fmt.Errorf("forget records: %w", err)
	}
	return n, nil
}

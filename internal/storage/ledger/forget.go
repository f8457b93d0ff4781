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
	err := l.each(ctx, newReader(), func(ref Ref, rec Record, _ []blobEntry) error {
		if !forget(rec) {
			return nil
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.index.move(rec.Key.fingerprint(), ref, gone) { // else it was found damaged meanwhile
			n++
		}
		return nil
	})
	if err != nil {
		return n, fmt.Errorf("forget records: %w", err)
	}
	return n, nil
}

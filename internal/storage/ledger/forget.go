package ledger

import (
	"context"
	"fmt"
)

// ForgetIf is Forget for the records for which forget returns true. It is called for each current record in the order of
// writing; blobs have no data. It returns the number of forgotten records.
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
		if l.index.move(rec.Key.fingerprint(), ref, gone) { // otherwise it was found to be damaged meanwhile
			n++
		}
		return nil
	})
	if err != nil {
		return n, fmt.Errorf("forget records: %w", err)
	}
	return n, nil
}

package ledger

import (
	"context"
	"fmt"
	"slices"

	"latentbeam/schemas/fault"
)

// Mend replaces the damaged segments by new ones, of the records in them that are sound and count; one that was
// forgotten does not count. A kill at any point does no harm: new segments are later than old ones, and what goes is
// there twice or damaged. Refs from before are no longer valid. No other process may use the ledger meanwhile: the
// caller holds the lock on the output.
func (l *Ledger) Mend(ctx context.Context) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	l.mu.RLock()
	numbers := l.damagedNumbers()
	l.mu.RUnlock()
	if len(numbers) == 0 {
		return nil
	}
	all := func(Record) (keepRecord, keepBlobs bool) { return true, true }
	err := l.rewrite(ctx, func(c *compaction) error {
		for _, number := range numbers {
			err := l.counting(ctx, c.reader, number, l.names.name(number),
				func(ref Ref, rec Record, entries []blobEntry) error { return c.visit(ctx, all, ref, rec, entries) })
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("mend ledger: %w", err)
	}
	l.loseIf(func(ref Ref) bool { return slices.Contains(numbers, ref.segment()) }) // what was not found there any more
	fault.Point(fault.LedgerCompactBeforeRemove)
	for _, number := range numbers {
		if err := l.remove(ctx, number); err != nil {
			return fmt.Errorf("mend ledger: %w", err)
		}
	}
	return nil
}

package ledger

import (
	"context"
	"fmt"
	"slices"

	"latentbeam/schemas/fault"
)

// Mend replaces damaged segments by new ones with their intact and current records, without forgotten records. A kill at any
// point does no harm: new segments are later than old ones, and removed records exist twice or are damaged. Earlier Refs become
// invalid. The caller must hold the lock on the output, so that no other process uses the ledger.
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
	l.loseIf(func(ref Ref) bool { return slices.Contains(numbers, ref.segment()) }) // records that were not found there any more
	fault.Point(fault.LedgerCompactBeforeRemove)
	for _, number := range numbers {
		if err := l.remove(ctx, number); err != nil {
			return fmt.Errorf("mend ledger: %w", err)
		}
	}
	return nil
}

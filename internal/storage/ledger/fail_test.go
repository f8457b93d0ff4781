package ledger

import (
	"errors"
	"syscall"
	"testing"

	"latentbeam/internal/storage/store/dir"
	"latentbeam/schemas/fault"
)

// TestEveryCallFails fills the disk at each call of a worker in turn. The worker must end with exit code 75. When there is space again,
// the next worker continues with the ledger, which then has every element exactly once.
func TestEveryCallFails(t *testing.T) {
	const n = powerElements
	total := len(live(t).calls)
	failures := 0
	for bad := 1; bad <= total; bad++ {
		d := openDir(t)
		seen := 0
		d.SetTrace(func(dir.Call) error {
			if seen++; seen == bad {
				return syscall.ENOSPC
			}
			return nil
		})
		err := work(t.Context(), d, n, true, func(int) {})
		seen = total // from here on the disk has space
		if err != nil {
			failures++
			if fault.ExitCode(err) != fault.ExitTryAgain || !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("call %d: %v", bad, err)
			}
		}
		if err := work(t.Context(), d, n, true, func(int) {}); err != nil {
			t.Errorf("call %d: with space again: %v", bad, err)
		}
		if wrong := verify(t, d, n); wrong != nil {
			t.Errorf("call %d: %v", bad, wrong)
		}
	}
	if failures < 30 {
		t.Errorf("only %d of %d calls failed the work", failures, total)
	}
}

// TestCommitAfterFailure: after a failed Commit, the open ledger accepts the same records again.
func TestCommitAfterFailure(t *testing.T) {
	ops := []dir.Op{dir.OpCreate, dir.OpWrite, dir.OpSync, dir.OpRename, dir.OpSyncDir}
	for _, op := range ops {
		d := openDir(t)
		full := true
		d.SetTrace(func(c dir.Call) error {
			if full && c.Op == op {
				return syscall.EDQUOT
			}
			return nil
		})
		l := openLedger(t, d)
		err := l.Commit(t.Context(), []Record{recordOf(0, 0, Done)})
		if fault.ExitCode(err) != fault.ExitTryAgain {
			t.Errorf("%s: %v", op, err)
		}
		absent(t, l, keyOf(0))
		full = false
		must(t, l.Commit(t.Context(), []Record{recordOf(0, 0, Done), recordOf(1, 0, Done)}))
		must(t, l.Compact(t.Context(), func(Record) (bool, bool) { return true, true }))
		for _, l := range []*Ledger{l, openLedger(t, d)} {
			checkRecord(t, l, recordOf(0, 0, Done))
			if l.Len() != 2 {
				t.Errorf("%s: %d records", op, l.Len())
			}
		}
	}
}

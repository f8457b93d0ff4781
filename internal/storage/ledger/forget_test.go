package ledger

import "testing"

// TestForgetIf: the chosen records are absent in this process, and later commits for their keys are valid. On disk nothing changes.
func TestForgetIf(t *testing.T) {
	d, ctx := openDir(t), t.Context()
	l := openLedger(t, d)
	must(t, l.Commit(ctx, []Record{recordOf(0, 0, Done), recordOf(1, 0, Done), recordOf(2, 0, Failed)}))
	must(t, l.Commit(ctx, []Record{recordOf(1, 1, Done), recordOf(3, 0, Done)}))
	seen := 0
	n, err := l.ForgetIf(ctx, func(r Record) bool {
		seen++
		return r.Key == keyOf(1) || r.Key == keyOf(3)
	})
	if err != nil || n != 2 || seen != 4 || l.Len() != 2 {
		t.Errorf("forgot %d of %d, %d are left, %v; want 2 of 4, 2 left", n, seen, l.Len(), err)
	}
	absent(t, l, keyOf(1))
	absent(t, l, keyOf(3))
	checkRecord(t, l, recordOf(0, 0, Done))
	checkRecord(t, l, recordOf(2, 0, Failed))
	must(t, l.Commit(ctx, []Record{recordOf(3, 1, Done)}))
	checkRecord(t, l, recordOf(3, 1, Done))
	l = openLedger(t, d)
	checkRecord(t, l, recordOf(1, 1, Done))
	checkRecord(t, l, recordOf(3, 1, Done))
}

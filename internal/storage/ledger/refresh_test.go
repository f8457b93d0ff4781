package ledger

import "testing"

// TestRefresh: Refresh finds records of other processes and reads each segment once. LookupSince returns only records of the current run.
func TestRefresh(t *testing.T) {
	d := openDir(t)
	before := openLedger(t, d)
	must(t, before.Commit(t.Context(), []Record{recordOf(0, 0, Done), recordOf(1, 0, Failed)}))
	mine, other := openLedger(t, d), openLedger(t, d)
	since := mine.Generation()
	if since <= before.Generation() || other.Generation() != since {
		t.Errorf("generations %d, %d, %d", before.Generation(), since, other.Generation())
	}
	for i := 2; i < 6; i++ { // interleaved, so that no two segments of one process are adjacent
		must(t, other.Commit(t.Context(), []Record{recordOf(i, 0, Done)}))
		must(t, mine.Commit(t.Context(), []Record{recordOf(i+10, 0, Done)}))
		absent(t, mine, keyOf(i))
		must(t, mine.Refresh(t.Context()))
		checkRecord(t, mine, recordOf(i, 0, Done))
		checkRecord(t, mine, recordOf(i+10, 0, Done))
	}
	must(t, mine.Refresh(t.Context()))
	if mine.Segments() != 9 || mine.Len() != 10 || mine.Generation() != since {
		t.Errorf("%d segments, %d records, generation %d", mine.Segments(), mine.Len(), mine.Generation())
	}
	for i, want := range map[int]Status{0: Absent, 1: Absent, 2: Done, 12: Done, 99: Absent} {
		if got, err := mine.LookupSince(keyOf(i), since); got != want || err != nil {
			t.Errorf("element %d: %v, %v, want %v", i, got, err, want)
		}
	}
	must(t, other.Commit(t.Context(), []Record{recordOf(1, 1, Failed)})) // it failed again
	must(t, mine.Refresh(t.Context()))
	if got, err := mine.LookupSince(keyOf(1), since); got != Failed || err != nil {
		t.Errorf("a row that failed again: %v, %v", got, err)
	}
	must(t, mine.Commit(t.Context(), []Record{recordOf(20, 0, Done)}))
	again := openLedger(t, d)
	for _, i := range []int{0, 2, 5, 12, 15, 20} {
		checkRecord(t, again, recordOf(i, 0, Done))
	}
}

package runfiles_test

import (
	"fmt"
	"os/exec"
	"testing"

	"latentbeam/internal/storage/store"
	"latentbeam/internal/storage/store/storetest"
	"latentbeam/internal/watch/runfiles"
)

// recordDeadProcess writes the mark of a process of this host that died while it worked on some rows, the elements of a JSON list. n is its
// number.
func recordDeadProcess(t *testing.T, j runfiles.Folder, n int, rows string) {
	t.Helper()
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Skip(err)
	}
	text := fmt.Sprintf(`{"host":%q,"pid":%d,"start":"1","rows":[%s]}`, store.NewOwner("").Host, cmd.Process.Pid, rows)
	err := j.Store.Put(t.Context(), store.Object{Name: fmt.Sprintf("runs/%s/begun-dead%d.json", j.ID, n), Data: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
}

// TestMarks: a process writes a mark of the rows that it works on, and removes it at the end. Where a dead process left its mark, one of the
// rows may have killed it. A row that was alone at two of three deaths is guilty. Rows that were in progress with others are not, even after
// three deaths. The mark of a process that is alive does not count as a death.
func TestMarks(t *testing.T) {
	s, err := storetest.NewMemory().Open(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	j := runfiles.Folder{Store: s, ID: "job"}
	me := j.Marks("me")
	if err := me.Start(t.Context(), []string{"mine"}, false); err != nil {
		t.Fatal(err)
	}
	for n, c := range []struct {
		rows   string // of the process that dies
		guilty bool   // row b is guilty after this death
		among  int    // smallest number of rows that were in progress when b was
	}{{`"a","b","c"`, false, 3}, {`"b"`, false, 1}, {`"b"`, true, 1}} {
		recordDeadProcess(t, j, n, c.rows)
		if err := me.RecordDeaths(t.Context()); err != nil {
			t.Fatal(err)
		}
		found, err := j.Suspects(t.Context(), map[string][]string{})
		if err != nil || len(found) != 3 || found["b"].Guilty() != c.guilty || found["b"].Among != c.among || found["a"].Guilty() {
			t.Errorf("after death %d: got suspects %+v, %v; want b among %d, guilty: %v", n+1, found, err, c.among, c.guilty)
		}
	}
	for n := range 3 { // both rows each time, so nobody knows which one is guilty
		recordDeadProcess(t, j, 10+n, `"x","y"`)
	}
	if err := me.RecordDeaths(t.Context()); err != nil {
		t.Fatal(err)
	}
	found, err := j.Suspects(t.Context(), map[string][]string{})
	if err != nil || found["x"].Deaths != 3 || found["x"].Guilty() {
		t.Errorf("a row that was never alone: got %+v, %v; want 3 deaths, not guilty", found["x"], err)
	}
	if err := me.Clear(t.Context()); err != nil {
		t.Fatal(err)
	}
	if names, err := store.Names(t.Context(), s, "runs/job/begun-", store.Flat); err != nil || len(names) > 0 {
		t.Errorf("after Clear, marks are left: %v, %v", names, err)
	}
}

// TestTroubles: Troubles returns the troubles (errors that a process reports to the job) that are new since the last call, each once.
func TestTroubles(t *testing.T) {
	s, err := storetest.NewMemory().Open(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	j, known := runfiles.Folder{Store: s, ID: "job"}, map[string]runfiles.Trouble{}
	for n := range 3 {
		if err := j.Report(t.Context(), runfiles.Trouble{Process: "p", Error: fmt.Sprint(n), Exit: 75}, n); err != nil {
			t.Fatal(err)
		}
		if added, err := j.Troubles(t.Context(), known); err != nil || len(added) != 1 || added[0].Error != fmt.Sprint(n) {
			t.Errorf("after trouble %d: got %+v, %v; want this one", n, added, err)
		}
	}
}

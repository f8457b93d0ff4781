package ledger

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"latentbeam/internal/storage/store"
	"latentbeam/internal/storage/store/dir"
	"latentbeam/internal/storage/store/dir/dirtest"
	"latentbeam/internal/system/testaid"
)

const powerElements = 6

// powerSeeds is how many random survivals each cut is tried with.
const powerSeeds = 50

// broken checks what a power cut after the first calls of h left, and returns the first promise
// that does not hold.
func broken(h *history, cut int, files map[string][]byte) string {
	done := map[Key]bool{}
	for name, data := range files {
		if !strings.HasPrefix(name, folder) || strings.Contains(name, ".tmp-") {
			continue
		}
		recs, err := readAll(data)
		if err != nil {
			return fmt.Sprintf("%s is visible and %v", name, err)
		}
		for _, r := range recs {
			done[r.Key] = true
		}
	}
	for i := range powerElements {
		want := element(i)
		data, there := files[payloadName(i)]
		switch {
		case there && !bytes.Equal(data, payload(i)):
			return fmt.Sprintf("the file of %d is visible and not whole", i)
		case done[want.Key] && want.Status == Done && !there:
			return fmt.Sprintf("the ledger knows %d but its file is gone", i)
		case !done[want.Key] && h.acked[i] > 0 && h.acked[i] <= cut:
			return fmt.Sprintf("element %d was safe and is lost", i)
		}
	}
	if table, there := files["tables/videos"]; there && bytes.Count(table, []byte("\n")) != powerElements {
		return "the table is visible and not whole"
	}
	return ""
}

// cuts tries every cut of a history and returns how many it took to find a broken promise.
func cuts(h *history, seeds int) (n int, wrong string) {
	d := dirtest.New(nil)
	for cut := range len(h.calls) + 1 {
		if cut > 0 {
			d.Do(h.calls[cut-1])
		}
		survivals := []dirtest.Survival{dirtest.None, dirtest.All}
		for seed := range uint64(seeds) {
			survivals = append(survivals, dirtest.Coins(seed<<20|uint64(cut)))
		}
		for i, s := range survivals {
			n++
			if wrong := broken(h, cut, d.Reboot(s)); wrong != "" {
				return n, fmt.Sprintf("power cut after call %d, survival %d: %s", cut, i, wrong)
			}
		}
	}
	return n, ""
}

// live records a life that does all the work.
func live(t *testing.T) *history {
	d := openDir(t)
	h := watch(d)
	must(t, work(t.Context(), d, powerElements, true, h.ack))
	return h
}

// TestPowerCut cuts the power after every call that a worker makes (P2). LATENTBEAM_SURVIVALS says for how many random
// choices of what survives.
func TestPowerCut(t *testing.T) {
	h := live(t)
	n, wrong := cuts(h, testaid.Count(t, "LATENTBEAM_SURVIVALS", powerSeeds))
	if wrong != "" {
		t.Error(wrong)
	}
	t.Logf("P2: %d power cuts after each of %d calls: what is visible is whole, what was safe is there", n, len(h.calls))
}

// TestPowerCutHeals writes what a cut leaves into a real directory and lets the next life finish.
func TestPowerCutHeals(t *testing.T) {
	h := live(t)
	for cut := range h.calls {
		disk := dirtest.New(nil)
		for _, c := range h.calls[:cut] {
			disk.Do(c)
		}
		d := openDir(t)
		for name, data := range disk.Reboot(dirtest.Coins(uint64(cut))) {
			at := filepath.Join(d.Path(), filepath.FromSlash(name))
			must(t, os.MkdirAll(filepath.Dir(at), 0o755))
			must(t, os.WriteFile(at, data, 0o644))
		}
		if err := work(t.Context(), d, powerElements, true, func(int) {}); err != nil {
			t.Errorf("cut %d: the next life: %v", cut, err)
		} else if wrong := verify(t, d, powerElements); wrong != nil {
			t.Errorf("cut %d: %v", cut, wrong)
		}
	}
}

// TestFlawsAreFound leaves out or swaps single steps of the publishing order: each flaw must break
// a promise under some power cut.
func TestFlawsAreFound(t *testing.T) {
	h := live(t)
	under := func(op dir.Op, dirs ...string) *history {
		left := 0
		flawed := h.without(func(c dir.Call) bool {
			for _, dir := range dirs {
				if c.Op == op && (c.Name == dir || strings.HasPrefix(c.Name, dir+"/")) {
					left++
					return true
				}
			}
			return false
		})
		if left == 0 {
			t.Errorf("no %s call under %v to leave out", op, dirs)
		}
		return flawed
	}
	for name, flawed := range map[string]*history{
		"no fsync of files":                  under(dir.OpSync, "videos"),
		"no fsync of segments":               under(dir.OpSync, "ledger"),
		"no fsync of the table":              under(dir.OpSync, "tables"),
		"no fsync of the files' directories": under(dir.OpSyncDir, "videos"),
		"no fsync of the ledger's directory": under(dir.OpSyncDir, "ledger"),
		"no fsync of the root":               under(dir.OpSyncDir, "."),
		"no fsync of new directories' parents": h.without(func(c dir.Call) bool {
			return c.Op == dir.OpSyncDir && (c.Name == "." || c.Name == "videos")
		}),
		"ledger before files": ledgerFirst(t),
	} {
		n, wrong := cuts(flawed, powerSeeds)
		if wrong == "" {
			t.Errorf("flaw %q is not found by %d power cuts", name, n)
		}
		t.Logf("%-38s found at cut %5d: %s", name, n, wrong)
	}
}

// ledgerFirst is a life in the wrong order: the record before the file.
func ledgerFirst(t *testing.T) *history {
	d := openDir(t)
	h := watch(d)
	l := openLedger(t, d)
	for i := range powerElements {
		must(t, l.Commit(t.Context(), []Record{element(i)}))
		if element(i).Status == Done {
			must(t, d.Put(t.Context(), store.Object{Name: payloadName(i), Data: payload(i)}))
		}
		h.ack(i)
	}
	return h
}

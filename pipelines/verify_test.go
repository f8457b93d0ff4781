package pipelines_test

import (
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"latentbeam/internal/results/audit"
	"latentbeam/internal/storage/store/dir"
	"latentbeam/internal/system/testaid"
)

// verified is what verify finds in an output.
func verified(t *testing.T, out string) audit.Verified {
	t.Helper()
	d, err := dir.Open(out)
	must(t, err)
	defer d.Close()
	v, err := audit.Verify(t.Context(), d)
	must(t, err)
	return v
}

// checkedFiles are the files of an output that verify answers for, by size in all.
func checkedFiles(t *testing.T, out string) (paths []string) {
	t.Helper()
	must(t, filepath.WalkDir(out, func(path string, d fs.DirEntry, err error) error {
		name, relErr := filepath.Rel(out, path)
		if err == nil && relErr == nil && d.Type().IsRegular() && !strings.HasPrefix(name, "runs") && !strings.HasSuffix(name, "lock") {
			paths = append(paths, path)
		}
		return err
	}))
	return paths
}

// TestPromiseP11 finds every one of many flipped bits, in any file. LATENTBEAM_FLIPS sets how many.
func TestPromiseP11(t *testing.T) {
	j := newJob(t, diskTable)
	j.sets = []string{"output.rows_per_file=2"}
	j.mustRun(t)
	if v := verified(t, j.out); !v.Sound() || v.Undigested > 0 || v.Rows != 5 {
		t.Fatalf("a new output: %+v", v)
	}
	flips := testaid.Count(t, "LATENTBEAM_FLIPS", 150)
	rng := rand.New(rand.NewPCG(11, 11))
	paths, found := checkedFiles(t, j.out), 0
	for range flips {
		path := paths[rng.IntN(len(paths))]
		data, err := os.ReadFile(path)
		must(t, err)
		at, bit := rng.IntN(len(data)), byte(1)<<rng.IntN(8)
		data[at] ^= bit
		must(t, os.WriteFile(path, data, 0o644))
		if v := verified(t, j.out); v.Sound() {
			t.Errorf("bit %d of byte %d of %d in %s is flipped, and nothing is found", bit, at, len(data), path)
		} else {
			found++
		}
		data[at] ^= bit
		must(t, os.WriteFile(path, data, 0o644))
	}
	t.Logf("P11: %d of %d flipped bits were found, in %d files", found, flips, len(paths))
}

// TestVerifyFinds: what is missing, unclaimed and foreign is told as what it is.
func TestVerifyFinds(t *testing.T) {
	j := newJob(t, diskTable)
	j.mustRun(t)
	gone := videoFiles(t, j.out, "a")[0]
	must(t, os.Remove(filepath.Join(j.out, filepath.FromSlash(gone))))
	must(t, os.Remove(filepath.Join(j.out, "index.html")))
	stray := "videos/00/" + strings.Repeat("0", 64) + ".mp4"
	must(t, os.MkdirAll(filepath.Join(j.out, "videos", "00"), 0o755))
	must(t, os.WriteFile(filepath.Join(j.out, filepath.FromSlash(stray)), []byte("x"), 0o644))
	must(t, os.WriteFile(filepath.Join(j.out, "notes.txt"), []byte("mine"), 0o644))
	v := verified(t, j.out)
	for _, want := range []audit.Finding{{Kind: audit.Missing, File: gone}, {Kind: audit.Missing, File: "index.html"},
		{Kind: audit.Unclaimed, File: stray}, {Kind: audit.Foreign, File: "notes.txt"}} {
		if !v.Is(want.Kind, want.File) {
			t.Errorf("%s is not told as %s: %+v", want.File, want.Kind, v.Findings)
		}
	}
	if len(v.Findings) != 4 || v.Sound() {
		t.Errorf("%+v", v.Findings)
	}
	j.mustRun(t)
	if v := verified(t, j.out); !v.Sound() || len(v.Findings) != 2 {
		t.Errorf("after a run: %+v", v.Findings)
	}
	opened, err := j.open()
	must(t, err)
	defer opened.Close()
	d, err := dir.Open(j.out)
	must(t, err)
	defer d.Close()
	if _, err := audit.Verify(t.Context(), d); err == nil || !strings.Contains(err.Error(), "latentbeam run") {
		t.Errorf("beside a run: %v", err)
	}
}

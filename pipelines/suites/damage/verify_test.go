package damage

import (
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/internal/results/audit"
	"latentbeam/internal/storage/store/dir"
	"latentbeam/internal/system/testaid"
)

// checkedFiles returns the files of an output that verify checks, with their sizes.
func checkedFiles(t *testing.T, out string) (paths []string) {
	t.Helper()
	jobtest.Must(t, filepath.WalkDir(out, func(path string, d fs.DirEntry, err error) error {
		name, relErr := filepath.Rel(out, path)
		if err == nil && relErr == nil && d.Type().IsRegular() && !strings.HasPrefix(name, "runs") && !strings.HasSuffix(name, "lock") {
			paths = append(paths, path)
		}
		return err
	}))
	return paths
}

// TestPromiseP11: verify finds every flipped bit, in any file. LATENTBEAM_FLIPS sets the number of flips.
func TestPromiseP11(t *testing.T) {
	j := jobtest.NewJob(t, jobtest.DiskTable)
	j.Sets = []string{"output.rows_per_file=2"}
	j.MustRun(t)
	if v := jobtest.Verified(t, j.Out); !v.Sound() || v.Undigested > 0 || v.Rows != 5 {
		t.Fatalf("verify finds something in a new output: %+v", v)
	}
	flips := testaid.Count(t, "LATENTBEAM_FLIPS", 150)
	rng := rand.New(rand.NewPCG(11, 11))
	paths, found := checkedFiles(t, j.Out), 0
	for range flips {
		path := paths[rng.IntN(len(paths))]
		data, err := os.ReadFile(path)
		jobtest.Must(t, err)
		at, bit := rng.IntN(len(data)), byte(1)<<rng.IntN(8)
		data[at] ^= bit
		jobtest.Must(t, os.WriteFile(path, data, 0o644))
		if v := jobtest.Verified(t, j.Out); v.Sound() {
			t.Errorf("bit %d of byte %d of %d in %s is flipped, and verify finds no damage", bit, at, len(data), path)
		} else {
			found++
		}
		data[at] ^= bit
		jobtest.Must(t, os.WriteFile(path, data, 0o644))
	}
	t.Logf("P11: %d of %d flipped bits were found, in %d files", found, flips, len(paths))
}

// TestVerifyFinds: verify distinguishes files that are missing, that no row of the tables claims, and that no run has written.
func TestVerifyFinds(t *testing.T) {
	j := jobtest.NewJob(t, jobtest.DiskTable)
	j.MustRun(t)
	gone := jobtest.VideoFiles(t, j.Out, "a")[0]
	jobtest.Must(t, os.Remove(filepath.Join(j.Out, filepath.FromSlash(gone))))
	jobtest.Must(t, os.Remove(filepath.Join(j.Out, "index.html")))
	stray := "videos/00/" + strings.Repeat("0", 64) + ".mp4"
	jobtest.Must(t, os.MkdirAll(filepath.Join(j.Out, "videos", "00"), 0o755))
	jobtest.Must(t, os.WriteFile(filepath.Join(j.Out, filepath.FromSlash(stray)), []byte("x"), 0o644))
	jobtest.Must(t, os.WriteFile(filepath.Join(j.Out, "notes.txt"), []byte("mine"), 0o644))
	v := jobtest.Verified(t, j.Out)
	for _, want := range []audit.Finding{{Kind: audit.Missing, File: gone}, {Kind: audit.Missing, File: "index.html"},
		{Kind: audit.Unclaimed, File: stray}, {Kind: audit.Foreign, File: "notes.txt"}} {
		if !v.Is(want.Kind, want.File) {
			t.Errorf("%s is not reported as %s: %+v", want.File, want.Kind, v.Findings)
		}
	}
	if len(v.Findings) != 4 || v.Sound() {
		t.Errorf("verify reports something else: %+v", v.Findings)
	}
	j.MustRun(t)
	if v := jobtest.Verified(t, j.Out); !v.Sound() || len(v.Findings) != 2 {
		t.Errorf("after a run has repaired the output, verify finds %+v", v.Findings)
	}
	opened, err := j.Open()
	jobtest.Must(t, err)
	defer opened.Close()
	d, err := dir.Open(j.Out)
	jobtest.Must(t, err)
	defer d.Close()
	if _, err := audit.Verify(t.Context(), d); err == nil || !strings.Contains(err.Error(), "latentbeam run") {
		t.Errorf("verify during a run: got error %v", err)
	}
}

package cpu

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestGeneratedFilesAreFresh runs the generator, which has no dependencies, and compares its files with the committed ones.
func TestGeneratedFilesAreFresh(t *testing.T) {
	dir := t.TempDir()
	run := exec.Command("go", "run", ".", dir)
	run.Dir = "gen"
	run.Env = append(os.Environ(), "GOOS=", "GOARCH=", "GOFLAGS=", "GOWORK=off", "GOPROXY=off")
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("generator: %v\n%s", err, out)
	}
	fresh, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(fresh) == 0 {
		t.Fatalf("the generator wrote nothing: %v", err)
	}
	for _, path := range fresh {
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Base(path))
		if err != nil || string(got) != string(want) {
			t.Errorf("%s is not what kernels/cpu/gen writes (%v): go run . there and commit", filepath.Base(path), err)
		}
	}
}

package same

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/cpu"
)

const (
	modeEnv   = "LATENTBEAM_SAME"   // "": short cases in plain Go; "write": make the record; else: all
	binaryEnv = "LATENTBEAM_BINARY" // a build of the program, instead of one of this tree
)

// TestSame runs the cases in the numeric classes that every machine has.
func TestSame(t *testing.T) {
	mode := os.Getenv(modeEnv)
	if mode == "" && testing.Short() {
		t.Skip("short tests run no whole jobs")
	}
	binary := program(t)
	scenarios := readScenarios(t)
	recorded := readRecord(t)
	recorded.write = mode == "write"
	for _, class := range []string{"go", "avx2"} {
		t.Run(class, func(t *testing.T) {
			if class == "avx2" && !(cpu.X86.HasAVX2 && cpu.X86.HasFMA) {
				t.Skip("THIS PROCESSOR HAS NO AVX2: the class avx2 was not compared")
			}
			t.Cleanup(func() {
				if recorded.write {
					recorded.save(t)
				}
			})
			for _, s := range scenarios {
				if !s.in(class) || mode == "" && (class != "go" || !s.flags["short"]) {
					continue
				}
				t.Run(s.name, func(t *testing.T) {
					t.Parallel()
					compare(t, s, binary, class, recorded)
				})
			}
		})
	}
}

// compare runs a case in a class and compares what it did with the record.
func compare(t *testing.T, s scenario, binary, class string, recorded *record) {
	sh := newShell(t, binary, class)
	text := s.play(t, sh)
	recorded.take(t, class, s, text, sh.wrote)
}

// program returns the path of the program, built from this tree or as binaryEnv says.
func program(t *testing.T) string {
	t.Helper()
	if path := os.Getenv(binaryEnv); path != "" {
		full, err := filepath.Abs(path)
		if err != nil {
			t.Fatal(err)
		}
		return full
	}
	path := filepath.Join(t.TempDir(), "latentbeam")
	cmd := exec.Command("go", "build", "-trimpath", "-o", path, "../../cmd/latentbeam")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return path
}

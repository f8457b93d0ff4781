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

// TestSame runs the cases in the numeric classes that most machines have, and on the stand-in for a CUDA driver.
func TestSame(t *testing.T) {
	mode := os.Getenv(modeEnv)
	if mode == "" && testing.Short() {
		t.Skip("short tests run no whole jobs")
	}
	scenarios, recorded := readScenarios(t), readRecord(t)
	recorded.write = mode == "write"
	for _, class := range []string{"go", "avx2", "cuda"} {
		if mode == "" && class != "go" {
			continue
		}
		t.Run(class, func(t *testing.T) {
			binary := program(t, class)
			t.Cleanup(func() {
				if recorded.write {
					recorded.save(t)
				}
			})
			for _, s := range scenarios {
				if !s.in(class) || mode == "" && !s.flags["short"] {
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

// program returns the path of the program for a class: built from this tree, or as binaryEnv says. It skips the class
// where this machine has not what it takes.
func program(t *testing.T, class string) string {
	t.Helper()
	switch {
	case class == "cuda":
		return cudaProgram(t)
	case class == "avx2" && !(cpu.X86.HasAVX2 && cpu.X86.HasFMA):
		t.Skip("NOT COMPARED: this processor has no AVX2")
	}
	if path := os.Getenv(binaryEnv); path != "" {
		full, err := filepath.Abs(path)
		if err != nil {
			t.Fatal(err)
		}
		return full
	}
	return build(t, "CGO_ENABLED=0", "-tags", "prism")
}

// build builds the program from this tree.
func build(t *testing.T, cgo string, flags ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "latentbeam")
	args := append([]string{"build", "-trimpath", "-o", path}, flags...)
	cmd := exec.Command("go", append(args, "../../../cmd/latentbeam")...)
	cmd.Env = append(os.Environ(), cgo)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return path
}

// cudaProgram returns the path of the program with the CUDA backend, and builds the stand-in for its driver.
func cudaProgram(t *testing.T) string {
	t.Helper()
	if os.Getenv(binaryEnv) != "" {
		t.Skipf("NOT COMPARED: %s names a build without CUDA", binaryEnv)
	}
	for _, tool := range []string{"g++", "gcc", "make"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("NOT COMPARED: the stand-in for a CUDA driver needs %s", tool)
		}
	}
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("make", "-s", "-j2", "-C", root+"/kernels/cuda/fake", "BUILD="+root+"/build")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make: %v\n%s", err, out)
	}
	t.Setenv("CGO_CFLAGS", "-O2 -I"+root+"/kernels/cuda/include")
	t.Setenv("CGO_LDFLAGS", "-L"+root+"/kernels/cuda/driver/stub")
	return build(t, "CGO_ENABLED=1", "-tags", "cuda netgo osusergo")
}

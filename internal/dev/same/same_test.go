package same

import (
	"debug/buildinfo"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/cpu"
)

const (
	modeEnv   = "LATENTBEAM_SAME"   // "write": make the record; "all": compare in all classes; "": compare, but not in plain Go if there is AVX2
	binaryEnv = "LATENTBEAM_BINARY" // path of another build of the program
)

// TestSame runs each case of testdata/cases and compares what the program wrote and printed with the record. It does so in the numeric classes
// go (plain Go) and avx2, and on a fake CUDA driver. With -short it runs only the cases with the line "short", in plain Go. Without it, the
// class go is left out where avx2 runs, unless the environment asks for all.
func TestSame(t *testing.T) {
	scenarios, r, host := readScenarios(t), &record{texts: map[string]string{}}, hostProgram(t)
	if os.Getenv(modeEnv) == "write" {
		r.source = commitOf(t)
	}
	avx2 := cpu.X86.HasAVX2 && cpu.X86.HasFMA
	for _, class := range []string{"go", "avx2", "cuda"} {
		if testing.Short() && class != "go" || !testing.Short() && class == "go" && avx2 && os.Getenv(modeEnv) == "" {
			continue
		}
		t.Run(class, func(t *testing.T) {
			binary := host
			switch {
			case class == "cuda":
				binary = cudaProgram(t)
			case class == "avx2" && !avx2:
				t.Skip("NOT COMPARED: this processor has no AVX2")
			}
			for _, s := range scenarios {
				if !s.in(class) || testing.Short() && !s.flags["short"] {
					continue
				}
				t.Run(s.name, func(t *testing.T) {
					t.Parallel()
					sh := newShell(t, binary, class)
					text := s.play(t, sh)
					t.Logf("the program took %.1f s of processor time", sh.cpu.Seconds())
					r.check(t, class, s, text, sh.calls)
				})
			}
		})
	}
}

// repository returns the directory of go.mod.
func repository(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no directory above has go.mod")
		}
		dir = filepath.Dir(dir)
	}
}

// commitOf returns the commit of the program: from git for this tree, or from the build information of another build. Changes below
// this directory do not count, because they are not part of the program.
func commitOf(t *testing.T) string {
	t.Helper()
	if path := os.Getenv(binaryEnv); path != "" {
		info, err := buildinfo.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		noted := map[string]string{}
		for _, s := range info.Settings {
			noted[s.Key] = s.Value
		}
		if noted["vcs.revision"] == "" {
			t.Fatalf("%s does not say its commit: build it with -buildvcs=true in a clone (in a worktree of git, Go notes none)", path)
		}
		return commitLine(noted["vcs.revision"], noted["vcs.modified"] == "true")
	}
	root := repository(t)
	git := func(args ...string) string {
		out, err := exec.Command("git", append([]string{"-C", root}, args...)...).Output()
		if err != nil {
			t.Fatalf("git %s: %v", strings.Join(args, " "), err)
		}
		return strings.TrimSpace(string(out))
	}
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	return commitLine(git("log", "-1", "--format=%H (%s)"), git("status", "--porcelain", "--", ".", ":(exclude)"+here) != "")
}

// commitLine describes a commit. It includes the subject, by which the commit can be found after a rebase.
func commitLine(commit string, modified bool) string {
	if modified {
		return "commit " + commit + ", with changes that are not committed"
	}
	return "commit " + commit
}

// hostProgram returns the path of the program: the one of binaryEnv, or one that it builds from this tree.
func hostProgram(t *testing.T) string {
	t.Helper()
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
	args := append([]string{"build", "-o", path}, flags...)
	cmd := exec.Command("go", append(args, "./cmd/latentbeam")...)
	cmd.Dir, cmd.Env = repository(t), append(os.Environ(), cgo)
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
	root := repository(t)
	cmd := exec.Command("make", "-s", "-j2", "-C", root+"/kernels/cuda/fake", "BUILD="+root+"/build")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make: %v\n%s", err, out)
	}
	t.Setenv("CGO_CFLAGS", "-O2 -I"+root+"/kernels/cuda/include")
	t.Setenv("CGO_LDFLAGS", "-L"+root+"/kernels/cuda/driver/stub")
	return build(t, "CGO_ENABLED=1", "-tags", "cuda netgo osusergo")
}

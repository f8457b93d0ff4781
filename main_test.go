package latentbeam_test

import (
	"bytes"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestModuleOutside builds testdata/module as a module of its own, as a user of this one would, and runs its job: the
// stage that it adds is in the catalog and does its work.
func TestModuleOutside(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/module")); err != nil {
		t.Fatal(err)
	}
	writeModule(t, dir)
	run(t, dir, "go", "build", "-mod=mod", "-o", "watermark", ".")
	program := filepath.Join(dir, "watermark")

	if list := run(t, dir, program, "stages"); !strings.Contains(list, "watermark         frames   frames") {
		t.Errorf("the stage is not listed:\n%s", list)
	}
	run(t, dir, program, "run", "job.yaml")
	files, err := filepath.Glob(filepath.Join(dir, "out/videos/*/*.png"))
	if err != nil || len(files) != 1 {
		t.Fatalf("images %v, %v, want one", files, err)
	}
	checkStamp(t, files[0], 3)

	cmd := exec.Command(program, "run", "job.yaml", "--set", "stages.watermark.size=0")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), "size is 0: give 1 or more pixels") {
		t.Errorf("an option out of range: %v\n%s", err, out)
	}
}

// writeModule gives dir a go.mod that takes this module from its directory, and the versions that this one uses.
func writeModule(t *testing.T, dir string) {
	t.Helper()
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text = bytes.Replace(text, []byte("module latentbeam"), []byte("module example.com/watermark"), 1)
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run(t, dir, "go", "mod", "edit", "-require", "latentbeam@v0.0.0", "-replace", "latentbeam="+root)
}

// run runs a program in dir and returns what it prints.
func run(t *testing.T, dir, program string, args ...string) string {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// checkStamp looks for a white square of so many pixels in the corner of an image, and for none beyond it.
func checkStamp(t *testing.T, name string, size int) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []int{0, size - 1, size} {
		r, g, b, _ := img.At(at, at).RGBA()
		if white := min(r, g, b) == 0xffff; white != (at < size) {
			t.Errorf("pixel %d is white: %v", at, white)
		}
	}
}

package main

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// deadcode lists functions that no main and no test reaches.
const deadcode = "golang.org/x/tools/cmd/deadcode@v0.50.0"

// build is a set of tags, with what a build with them needs.
type build struct {
	name, tags string
	env        []string
}

// builds are the programs in which functions may be reached.
func builds(dir string) []build {
	return []build{
		{"prism", "prism", []string{"CGO_ENABLED=0"}},
		{"prism and cuda", "prism,cuda,netgo,osusergo", []string{"CGO_ENABLED=1",
			"CGO_CFLAGS=-I" + filepath.Join(dir, "kernels/cuda/include"),
			"CGO_LDFLAGS=-L" + filepath.Join(dir, "kernels/cuda/driver/stub")}},
	}
}

// program builds the program as `make build` does. It returns its size, and how many packages are linked.
func program(dir string) (size int64, packages int, err error) {
	temp, err := os.MkdirTemp("", "rooms-*")
	if err != nil {
		return 0, 0, err
	}
	defer os.RemoveAll(temp)
	path := filepath.Join(temp, "latentbeam")
	if _, err := output(dir, nil, "make", "-s", "build", "PROGRAM="+path); err != nil {
		return 0, 0, err
	}
	file, err := os.Stat(path)
	if err != nil {
		return 0, 0, err
	}
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return 0, 0, err
	}
	tags, env := "", []string(nil)
	for _, s := range info.Settings {
		switch s.Key {
		case "-tags":
			tags = s.Value
		case "CGO_ENABLED":
			env = []string{"CGO_ENABLED=" + s.Value}
		}
	}
	list, err := output(dir, env, "go", "list", "-deps", "-tags", tags, "./cmd/latentbeam")
	return file.Size(), len(strings.Fields(list)), err
}

// unreachable lists the functions that a build has and that neither a program nor a test reaches.
func unreachable(dir string, b build) (found []string, err error) {
	list, err := output(dir, b.env, "go", "run", deadcode, "-test", "-tags", b.tags,
		"-f", "{{range .Funcs}}{{println .Position .Name}}{{end}}", "./...")
	for line := range strings.Lines(list) {
		if line = strings.TrimSpace(line); line != "" {
			found = append(found, line)
		}
	}
	return found, err
}

// output runs a command in dir and returns what it prints.
func output(dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var trouble bytes.Buffer
	cmd.Stderr = &trouble
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, trouble.String())
	}
	return string(out), nil
}

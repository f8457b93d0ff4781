package main

import (
	"archive/zip"
	"bytes"
	"cmp"
	"compress/flate"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A wheel is a zip file with the Python package, the static program for one platform, its licences and its bill of materials
// (https://packaging.python.org/en/latest/specifications/binary-distribution-format/). It has no compiled Python, so one wheel
// serves every version of Python. Names, times and modes of its members are fixed: equal commits give equal wheels.

// wheelTags are the platform tags of wheels. The program is static and needs no glibc, so it runs on both kinds of Linux.
var wheelTags = map[string]string{
	"linux/amd64":   "manylinux2014_x86_64.manylinux_2_17_x86_64.musllinux_1_1_x86_64",
	"linux/arm64":   "manylinux2014_aarch64.manylinux_2_17_aarch64.musllinux_1_1_aarch64",
	"darwin/amd64":  "macosx_12_0_x86_64",
	"darwin/arm64":  "macosx_12_0_arm64",
	"windows/amd64": "win_amd64",
}

// maxWheel is the maximum size of a wheel in bytes. Package indexes refuse large wheels, and downloads take time.
const maxWheel = 40 << 20

// wheels builds wheels for the named platforms, or for all if none is named, into dir.
func wheels(w io.Writer, dir string, platforms []string) error {
	if len(platforms) == 0 {
		platforms = slices.Sorted(maps.Keys(wheelTags))
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	files, err := pythonFiles("python/latentbeam")
	if err != nil {
		return err
	}
	for _, p := range platforms {
		if wheelTags[p] == "" {
			return fmt.Errorf("wheel: the platform %q is not known: give %v", p, slices.Sorted(maps.Keys(wheelTags)))
		}
		name, size, err := wheel(dir, p, files)
		if err != nil {
			return fmt.Errorf("wheel for %s: %w", p, err)
		}
		fmt.Fprintf(w, "%s %.1f MB\n", name, float64(size)/1e6)
	}
	return nil
}

// member is a file in a wheel.
type member struct {
	name string
	data []byte
	mode fs.FileMode
}

// project is the part of pyproject.toml that describes the package.
type project struct {
	version, summary, requires, readme string
	extras                             []extra
}

// extra is an optional group of dependencies.
type extra struct {
	name     string
	packages []string
}

var (
	field    = regexp.MustCompile(`(?m)^(version|description|requires-python) = "(.*)"$`)
	optional = regexp.MustCompile(`(?s)\[project\.optional-dependencies\]\n(.*?)\n(\[|$)`)
	list     = regexp.MustCompile(`(?m)^(\w+) = \[(.*)\]$`)
	quoted   = regexp.MustCompile(`"([^"]*)"`)
)

// oldName is the module latentbeam_stage of a wheel: programs that import it get latentbeam.stage, so that there is one RowError.
const oldName = `"""The earlier name of latentbeam.stage."""

import sys

from latentbeam import stage

sys.modules[__name__] = stage
`

// pythonFiles reads the modules of the package.
func pythonFiles(root string) (files []member, err error) {
	src := filepath.Join(root, "src")
	err = filepath.WalkDir(src, func(at string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if d != nil && d.Name() == "__pycache__" {
				return fs.SkipDir
			}
			return err
		}
		if ext := path.Ext(at); ext != ".py" && ext != ".typed" {
			return nil
		}
		data, err := os.ReadFile(at) // follows the link of stage.py
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(src, at)
		files = append(files, member{filepath.ToSlash(rel), data, 0o644})
		return err
	})
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%s has no modules", src)
	}
	return append(files, member{"latentbeam_stage.py", []byte(oldName), 0o644}), err
}

// aboutPackage reads pyproject.toml and the README of the package.
func aboutPackage(root string) (p project, err error) {
	text, err := os.ReadFile(filepath.Join(root, "pyproject.toml"))
	if err != nil {
		return p, err
	}
	for _, m := range field.FindAllStringSubmatch(string(text), -1) {
		switch m[1] {
		case "version":
			p.version = m[2]
		case "description":
			p.summary = m[2]
		case "requires-python":
			p.requires = m[2]
		}
	}
	if m := optional.FindSubmatch(text); m != nil {
		for _, line := range list.FindAllStringSubmatch(string(m[1]), -1) {
			e := extra{name: line[1]}
			for _, q := range quoted.FindAllStringSubmatch(line[2], -1) {
				e.packages = append(e.packages, q[1])
			}
			p.extras = append(p.extras, e)
		}
	}
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	p.readme = string(readme)
	if err == nil && (p.version == "" || p.summary == "" || p.requires == "") {
		err = errors.New("pyproject.toml lacks version, description or requires-python")
	}
	return p, err
}

// wheel writes the wheel of one platform and returns its name and size.
func wheel(dir, platform string, modules []member) (name string, size int64, err error) {
	about, err := aboutPackage("python/latentbeam")
	if err != nil {
		return "", 0, err
	}
	goos, goarch, _ := strings.Cut(platform, "/")
	program := "latentbeam"
	if goos == "windows" {
		program += ".exe"
	}
	work, err := os.MkdirTemp("", "wheel")
	if err != nil {
		return "", 0, err
	}
	defer os.RemoveAll(work)
	built := filepath.Join(work, program)
	build := exec.Command("make", "-s", "build", "PROGRAM="+built)
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch)
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		return "", 0, fmt.Errorf("make build: %w", err)
	}
	binary, err := os.ReadFile(built)
	if err != nil {
		return "", 0, err
	}
	var licences, texts, bill bytes.Buffer
	if err := run(&licences, "licences", built); err != nil {
		return "", 0, err
	}
	if err := run(&texts, "notices", built); err != nil {
		return "", 0, err
	}
	if err := run(&bill, "sbom", built); err != nil {
		return "", 0, err
	}
	own, err := os.ReadFile("LICENSE")
	if err != nil {
		return "", 0, err
	}
	info := "latentbeam-" + about.version + ".dist-info/"
	files := append(slices.Clone(modules),
		member{"latentbeam/bin/" + program, binary, 0o755},
		member{info + "licenses/LICENSE", own, 0o644},
		member{info + "licenses/modules.txt", licences.Bytes(), 0o644},
		member{info + "licenses/NOTICES.txt", texts.Bytes(), 0o644},
		member{info + "sboms/latentbeam.cdx.json", bill.Bytes(), 0o644},
		member{info + "METADATA", []byte(metadata(about)), 0o644},
		member{info + "WHEEL", []byte(wheelFile(wheelTags[platform])), 0o644},
		member{info + "entry_points.txt", []byte("[console_scripts]\nlatentbeam = latentbeam._program:main\n"), 0o644},
	)
	name = fmt.Sprintf("latentbeam-%s-py3-none-%s.whl", about.version, wheelTags[platform])
	data, err := zipped(files, info+"RECORD")
	if err != nil {
		return "", 0, err
	}
	if len(data) > maxWheel {
		return "", 0, fmt.Errorf("it has %d bytes, more than %d", len(data), maxWheel)
	}
	return name, int64(len(data)), os.WriteFile(filepath.Join(dir, name), data, 0o644)
}

// metadata returns the file METADATA, version 2.4.
func metadata(p project) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Metadata-Version: 2.4\nName: latentbeam\nVersion: %s\nSummary: %s\nRequires-Python: %s\n", p.version, p.summary, p.requires)
	b.WriteString("License-Expression: Apache-2.0\nLicense-File: LICENSE\nLicense-File: modules.txt\nLicense-File: NOTICES.txt\n")
	for minor := 10; minor <= 13; minor++ {
		fmt.Fprintf(&b, "Classifier: Programming Language :: Python :: 3.%d\n", minor)
	}
	b.WriteString("Classifier: Typing :: Typed\n")
	for _, e := range p.extras {
		fmt.Fprintf(&b, "Provides-Extra: %s\n", e.name)
		for _, r := range e.packages {
			fmt.Fprintf(&b, "Requires-Dist: %s; extra == %q\n", r, e.name)
		}
	}
	b.WriteString("Description-Content-Type: text/markdown\n\n" + p.readme)
	return b.String()
}

// wheelFile returns the file WHEEL, with a line for each tag.
func wheelFile(tags string) string {
	text := "Wheel-Version: 1.0\nGenerator: latentbeam release\nRoot-Is-Purelib: false\n"
	for tag := range strings.SplitSeq(tags, ".") {
		text += "Tag: py3-none-" + tag + "\n"
	}
	return text
}

// zipped returns a zip file of members. The member record contains their digests.
func zipped(files []member, record string) ([]byte, error) {
	slices.SortFunc(files, func(a, b member) int { return cmp.Compare(a.name, b.name) })
	var list strings.Builder
	for _, f := range files {
		sum := sha256.Sum256(f.data)
		fmt.Fprintf(&list, "%s,sha256=%s,%d\n", f.name, base64.RawURLEncoding.EncodeToString(sum[:]), len(f.data))
	}
	list.WriteString(record + ",,\n")
	files = append(files, member{record, []byte(list.String()), 0o644})
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.BestCompression) })
	for _, f := range files {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)}
		h.SetMode(f.mode)
		w, err := z.CreateHeader(h)
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"strings"
	"testing"
)

// TestWheelFiles: a wheel without its program has all modules, the extras of pyproject.toml and right digests, and it has the same
// bytes each time.
func TestWheelFiles(t *testing.T) {
	t.Chdir("../../..")
	about, err := aboutPackage("python/latentbeam")
	if err != nil {
		t.Fatal(err)
	}
	build := func() []byte {
		files, err := pythonFiles("python/latentbeam")
		if err != nil {
			t.Fatal(err)
		}
		data, err := zipped(append(files, member{"x.dist-info/METADATA", []byte(metadata(about)), 0o644}), "x.dist-info/RECORD")
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	data := build()
	if !bytes.Equal(data, build()) {
		t.Error("two builds give wheels with different bytes")
	}
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	content := map[string]string{}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		content[f.Name] = string(text)
	}
	for name, want := range map[string]string{
		"latentbeam/__init__.py": "import latentbeam",
		"latentbeam/stage.py":    "class Stage", // a symbolic link in the source, its target's content in the wheel
		"latentbeam/py.typed":    "",
		"latentbeam_stage.py":    "from latentbeam import stage",
		"x.dist-info/METADATA":   "Requires-Dist: torch>=2.1; extra == \"torch\"",
		"x.dist-info/RECORD":     "x.dist-info/RECORD,,",
	} {
		if text, there := content[name]; !there || !strings.Contains(text, want) {
			t.Errorf("%s (in the wheel: %v) does not contain %q", name, there, want)
		}
	}
	if extras := strings.Count(content["x.dist-info/METADATA"], "Provides-Extra:"); extras != 2 {
		t.Errorf("METADATA has %d extras, want 2", extras)
	}
	for line := range strings.Lines(content["x.dist-info/RECORD"]) {
		parts := strings.Split(strings.TrimSpace(line), ",")
		if sum := sha256.Sum256([]byte(content[parts[0]])); parts[1] != "" && parts[1] != "sha256="+base64.RawURLEncoding.EncodeToString(sum[:]) {
			t.Errorf("RECORD has the digest %s for %s, want %x", parts[1], parts[0], sum)
		}
	}
}

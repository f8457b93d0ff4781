package config

import (
	"os"
	"path/filepath"
	"testing"
)

func TestLocalPath(t *testing.T) {
	home, here := t.TempDir(), t.TempDir()
	t.Setenv("HOME", home)
	t.Chdir(here)
	for text, want := range map[string]string{
		"~/x.csv": home + "/x.csv", "~": home, "~/d/": home + "/d/", "file:///a/b%20c.mp4": "/a/b c.mp4", "file://localhost/a": "/a",
		"file://host/a": "file://host/a", "x~/y": "x~/y", "~user/x": "~user/x", "gs://b/~/x": "gs://b/~/x", "": "", "./~": "./~",
	} {
		if got := LocalPath(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
	if got := LocalPaths("~/a.png;b.png;file:///c.png"); got != home+"/a.png;b.png;/c.png" {
		t.Errorf("several: %q", got)
	}
	if err := os.MkdirAll(filepath.Join(here, "~/out"), 0o755); err != nil { // earlier releases created such a folder
		t.Fatal(err)
	}
	if got := LocalPath("~/out"); got != "~/out" {
		t.Errorf("a folder that is there: %q", got)
	}
	c := mustParse(t, "version: 1\nmodel: ~/m\ninput: {media: [\"~/v/**/*.mp4\", \"file:///x\"]}\noutput: {path: ~/o}\nstages: [encode_vae]\n"+
		"defaults: {reference: \"~/r.png\"}\n")
	for _, one := range [][2]string{{c.Model.Path, home + "/m"}, {c.Input.Media[0], home + "/v/**/*.mp4"}, {c.Input.Media[1], "/x"},
		{c.Output.Path, home + "/o"}, {c.Defaults.Reference, home + "/r.png"}} {
		if one[0] != one[1] {
			t.Errorf("the job has %q, want %q", one[0], one[1])
		}
	}
}

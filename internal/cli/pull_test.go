package cli

import (
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"latentbeam/stages/weights/hub/hubtest"
	"latentbeam/testdata/tiny"
)

// TestPullAndRun pulls a model from a hub and then uses it by name without the hub. The videos have the same names as with the
// model in a directory.
func TestPullAndRun(t *testing.T) {
	files := map[string]string{"README.md": "read me", "LICENSE": "the licence"}
	err := fs.WalkDir(tiny.Files(), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(tiny.Files(), path)
		files[path] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	h := hubtest.New(t, map[string]hubtest.Repo{"org/tiny": {Files: files, Licence: "apache-2.0", Gated: true}})
	s := newShell(t, "prompts.csv", threePrompts, "job.yaml", small, "hub.yaml",
		strings.Replace(small, "model: tiny", "model: org/tiny", 1))
	s.env = append(s.env, "HF_HOME="+filepath.Join(s.dir, "hf"), "HF_HUB_CACHE=", "HUGGINGFACE_HUB_CACHE=",
		"HF_ENDPOINT="+h.URL, "HF_TOKEN=")
	s.says(s.run(2, "run", "hub.yaml"), "hub.yaml:2:8: ", "run `latentbeam pull org/tiny` first")
	s.says(s.run(2, "pull", "org/tiny"), "the repository is gated: accept its conditions at "+h.URL+"/org/tiny")
	s.says(s.run(2, "pull", "tiny"), `"tiny" is not the name of a repository: write OWNER/NAME`)
	s.says(s.run(2, "pull", "org/tiny", "--include", "[a"), "not a glob pattern")
	s.env = append(s.env, "HF_TOKEN="+hubtest.Token)
	s.says(s.run(2, "pull", "org/other"), "there is no such repository")
	s.says(s.run(0, "pull", "org/tiny"), "licence    apache-2.0", "10 were fetched", "to use it  model: org/tiny",
		filepath.Join("snapshots", hubtest.Commit))
	s.says(s.run(0, "pull", "org/tiny"), "0 were fetched")

	s.env = append(s.env, "HF_ENDPOINT=http://127.0.0.1:1", "HF_HUB_OFFLINE=1", "HF_TOKEN=")
	s.says(s.run(2, "pull", "org/tiny"), "HF_HUB_OFFLINE is 1")
	s.run(0, "run", "job.yaml")
	s.run(0, "run", "hub.yaml", "--set", "output.path=again")
	var names [2][]string
	for i, out := range []string{"out", "again"} {
		found, err := filepath.Glob(filepath.Join(s.dir, out, "videos", "*", "*.mp4"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			names[i] = append(names[i], filepath.Base(f))
		}
	}
	if len(names[0]) == 0 || !slices.Equal(names[0], names[1]) {
		t.Errorf("the model of the hub gives the videos %v, the built-in one %v", names[1], names[0])
	}
}

package cli

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

// TestHooks: a command and a URL get the summary once, when the whole job is complete. Of several shards only the last one
// notifies them, and retry runs hooks only if it is allowed to.
func TestHooks(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs a POSIX shell")
	}
	var mu sync.Mutex
	var bodies []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		body, _ := io.ReadAll(r.Body)
		bodies = append(bodies, string(body))
		if len(bodies) == 1 { // the first request fails, and the hook is tried again
			w.WriteHeader(http.StatusBadGateway)
		}
	}))
	defer server.Close()
	heard := func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(bodies)
	}
	hooked := small + "on_complete:\n  - cat > told.json; echo told about $LATENTBEAM_OUTPUT\n  - ${HOOK}\n"
	s := newShell(t, "job.yaml", hooked, "prompts.csv", "id,prompt,num_frames\na,a red circle,\nb,a blue square,\nc,x,-3\n")
	s.says(s.run(2, "run", "job.yaml"), "on_complete", "the environment has no HOOK", "job.yaml:")
	s.env = append(s.env, "HOOK="+server.URL+"/done")
	told := func() string {
		data, _ := os.ReadFile(filepath.Join(s.dir, "told.json"))
		_ = os.Remove(filepath.Join(s.dir, "told.json"))
		return string(data)
	}
	if out := s.run(1, "run", "job.yaml"); !strings.Contains(out, "told about "+filepath.Join(s.dir, "out")) {
		t.Errorf("the output of the command is missing:\n%s", out)
	}
	summary, err := os.ReadFile(filepath.Join(s.dir, "out", "summary.json"))
	if all := heard(); err != nil || told() != string(summary) || len(all) != 2 || all[1] != string(summary) {
		t.Errorf("%v: the server got %d requests, the summary is\n%s", err, len(all), summary)
	}
	if strings.Contains(string(summary), "on_complete") || strings.Contains(string(summary), server.URL) {
		t.Errorf("the summary has the hooks:\n%s", summary)
	}
	s.run(1, "run", "job.yaml") // nothing to do
	if told() != "" {
		t.Error("a hook was called for a run with nothing to do")
	}
	s.write("prompts.csv", "id,prompt\na,a red circle\nb,a blue square\nd,a green triangle\n")
	s.says(s.run(0, "retry", "out"), "on_complete is not called", "--allow-exec")
	if told() != "" {
		t.Error("retry called a command that only the output's job.json names")
	}
	s.write("prompts.csv", "id,prompt\na,a red circle\nb,a blue square\n")
	s.run(0, "retry", "out", "--allow-exec")
	if told() == "" {
		t.Error("retry did not call the hook, although a flag allows it")
	}
	n := len(heard())
	for i, shard := range []string{"0/2", "1/2"} {
		s.run(0, "run", "job.yaml", "--output", "shards", "--shard", shard)
		if (told() != "") != (i == 1) {
			t.Errorf("after shard %s the command was called, or after the last shard it was not", shard)
		}
	}
	if got := len(heard()); got != n+1 {
		t.Errorf("the server got %d requests for two shards, want 1", got-n)
	}
}

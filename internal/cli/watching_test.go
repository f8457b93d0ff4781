package cli

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWatching: a run writes JSON logs, metrics and a timeline, prints nothing else with --quiet, and leaves facts that
// status reads.
func TestWatching(t *testing.T) {
	s := newShell(t, "job.yaml", small, "prompts.csv", "id,prompt,num_frames\na,a red circle,\nb,a red circle moves left,-3\n")
	s.says(s.run(2, "status", "out"), "out")
	out := s.run(1, "run", "job.yaml", "--log-format", "json", "--quiet", "--trace", "t.json", "--metrics-file", "m.prom",
		"--metrics", "127.0.0.1:0")
	var rows []string
	for line := range strings.Lines(out) {
		var one map[string]any
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatalf("%v in line %q", err, line)
		}
		if one["msg"] == "row done" {
			rows = append(rows, one["row"].(string))
			if one["run"] == "" || one["run"] == nil {
				t.Errorf("the record does not name its run: %s", line)
			}
		}
	}
	if strings.Join(rows, " ") != "a" || !strings.Contains(out, `"exit":1`) {
		t.Errorf("the log has the rows %v:\n%s", rows, out)
	}
	prom, err := os.ReadFile(filepath.Join(s.dir, "m.prom"))
	if err != nil || !strings.Contains(string(prom), `latentbeam_rows_settled_total{result="done"} 1`) ||
		!strings.Contains(string(prom), `latentbeam_rows_passed_over_total{reason="unusable"} 1`) {
		t.Errorf("the metrics are wrong: %v:\n%s", err, prom)
	}
	// The metrics of a run with nothing to do have the counts of its plan, equal to those of the run before.
	s.run(1, "run", "job.yaml", "--quiet", "--metrics-file", "m.prom")
	prom, err = os.ReadFile(filepath.Join(s.dir, "m.prom"))
	for _, want := range []string{`latentbeam_run_state{state="done"} 1`, `latentbeam_rows_passed_over_total{reason="settled_before"} 1`,
		`latentbeam_rows_passed_over_total{reason="unusable"} 1`, `latentbeam_failures_total{class="row",stage="read"} 1`} {
		if err != nil || !strings.Contains(string(prom), want+"\n") {
			t.Errorf("after a run with nothing to do, %q is missing: %v:\n%s", want, err, prom)
		}
	}
	timeline, err := os.ReadFile(filepath.Join(s.dir, "t.json"))
	var events []map[string]any
	if err != nil || json.Unmarshal(timeline, &events) != nil || !strings.Contains(string(timeline), `"cat":"work"`) {
		t.Errorf("the timeline is wrong: %v:\n%s", err, timeline)
	}
	s.says(s.run(0, "status", "out"), "job done, ", "1/1 rows, 100 %", "1 failed (1 cannot be used), the first: prompts.csv:3: ")
	var st struct {
		State     string
		Processes []struct{ Life string }
	}
	text, _ := s.both(0, "status", "out", "--json", "--watch")
	if err := json.Unmarshal([]byte(text), &st); err != nil || st.State != "done" ||
		len(st.Processes) != 1 || st.Processes[0].Life != "ended" {
		t.Errorf("status --json prints %v, %+v", err, st)
	}
	s.says(s.run(2, "status", "out", "--job", "none"), "knows no job none")
}

// TestWatchingWrong: wrong flags are errors before anything is computed.
func TestWatchingWrong(t *testing.T) {
	s := newShell(t, "job.yaml", small, "prompts.csv", "prompt\na red circle\n")
	for want, args := range map[string][]string{
		`--log-format is "xml": give text or json`:          {"--log-format", "xml"},
		`--log-level: "loud" is no level`:                   {"--log-level", "loud"},
		"give a free host:port":                             {"--metrics", "nowhere"},
		"reads only files that end with .prom":              {"--metrics-file", "m.txt"},
		"--trace no/such/dir/t.json: there is no directory": {"--trace", "no/such/dir/t.json"},
	} {
		s.says(s.run(2, append([]string{"run", "job.yaml"}, args...)...), want)
	}
	if s.exists("out") {
		t.Error("a run with a wrong flag created an output")
	}
}

// TestStatusWaits: status --watch waits for an output that does not exist yet, and ends when its job ends.
func TestStatusWaits(t *testing.T) {
	s := newShell(t, "job.yaml", small, "prompts.csv", "prompt\na red circle\n")
	cmd, stdout, _ := s.command("status", "out", "--watch")
	cmd.Stderr = nil
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(stderr).ReadString('\n'); err != nil || line != "waiting: there is no output at out yet\n" {
		t.Fatalf("status --watch prints %q, %v", line, err)
	}
	s.says(s.run(0, "run", "job.yaml"), "1 row: 1 to do")
	if err := cmd.Wait(); err != nil || !strings.Contains(stdout.String(), "1/1 rows, 100 %") {
		t.Errorf("status --watch ended with %v:\n%s", err, stdout)
	}
}

// TestInitLeavesClips: init writes no sample into a folder clips that has files of the user. It would become training data.
func TestInitLeavesClips(t *testing.T) {
	s := newShell(t)
	if err := os.Mkdir(filepath.Join(s.dir, "clips"), 0o755); err != nil {
		t.Fatal(err)
	}
	s.says(s.run(0, "init", "--template", "precompute"), "wrote job.yaml", "clips is there already: no sample was written into it")
	if files, err := os.ReadDir(filepath.Join(s.dir, "clips")); err != nil || len(files) > 0 {
		t.Errorf("the folder clips has %v, %v", files, err)
	}
}

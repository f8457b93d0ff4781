package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"latentbeam/internal/config"
	"latentbeam/internal/system/testaid"
	"latentbeam/stages"
	"latentbeam/stages/catalog"
	"latentbeam/stages/exec/exectest"
)

// TestTemplateExec: the job that init --template exec writes runs with the installed Python.
func TestTemplateExec(t *testing.T) {
	testaid.Needs(t, "python3")
	s := newShell(t)
	s.says(s.run(0, "init", "--template", "exec"), "wrote job.yaml", "wrote generate.py", "wrote latentbeam_stage.py")
	s.says(s.run(0, "run", "job.yaml"), "3/3 rows, 0 failed")
	if log, err := os.ReadFile(filepath.Join(s.dir, "generate.log")); err != nil ||
		!strings.Contains(string(log), "exec 0: drawing a blue square") {
		t.Errorf("the program's generate.log has %q, %v", log, err)
	}
	s.says(s.run(0, "run", "job.yaml"), "nothing to do: all 3 rows")
	s.says(s.run(2, "init", "other.yaml", "--template", "van"), `--template is "van": give one of tiny, exec`)
}

// TestTemplates: each job that init writes runs. Small programs replace those that need a model.
func TestTemplates(t *testing.T) {
	for _, c := range []struct {
		name, file, program string // program is used in place of the template's program
		says                string
		status              int
	}{
		{"tiny", "", "", "3/3 rows, 0 failed", 0},
		{"precompute", "", "", "1/1 rows, 0 failed", 0},
		{"opensora", "", "", "models/", 2},
		{"vbench", "", "", "10/10 rows, 0 failed", 0},
		{"mlperf", "", "", "latentbeam pull Wan-AI/Wan2.2-T2V-A14B-Diffusers", 2},
		{"wan", "", "", "latentbeam pull Wan-AI/Wan2.1-T2V-1.3B-Diffusers", 2},
		{"diffusers", "generate.py", templateText("generate.py")(), "3/3 rows, 0 failed", 0},
		{"caption", "caption.py", "from latentbeam_stage import stage\n\n" +
			"stage(takes='media', gives='prompt')(lambda rows: ['a circle' for _ in rows]).run()\n", "1/1 rows, 0 failed", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newShell(t)
			args := []string{"run", "job.yaml", "--set", "defaults.num_inference_steps=2"} // TestInitThenRun plans it as it is written
			if c.program != "" {
				testaid.Needs(t, "python3")
				s.write(c.file, c.program)
				args = append(args, "--set", "defaults.height=16", "--set", "defaults.width=16", "--set", "defaults.num_frames=1")
			}
			wrote := s.run(0, "init", "--template", c.name)
			s.says(wrote, "wrote job.yaml")
			if says := strings.Contains(wrote, "get the weights once"); says != (c.status == 2) {
				t.Errorf("init prints how to get weights: %v, want the contrary: %s", says, wrote)
			}
			text := s.run(c.status, args...)
			s.says(text, c.says)
			if strings.Contains(text, "without a word") {
				t.Errorf("a run warns about the prompts of the template: %s", text)
			}
		})
	}
}

// TestScoresFile: scores.json has the form of VBench's results. A dimension counts only its own rows, and the number of workers
// does not change the file.
func TestScoresFile(t *testing.T) {
	s := newShell(t)
	s.says(s.run(0, "init", "--template", "vbench"), "wrote job.yaml")
	s.write("VBench_full_info.json", `[{"prompt_en": "a red circle", "dimension": ["motion", "scene"]}, {"prompt_en": "a blue square", "dimension": ["luminance"]}]`)
	small := []string{"--set", "defaults.height=16", "--set", "defaults.width=16", "--set", "defaults.num_frames=2",
		"--set", "stages.score.by=[motion, sharpness, luminance]"}
	var first []byte
	for i, workers := range []string{"1", "3"} {
		out := "out" + workers
		s.run(0, append([]string{"run", "job.yaml", "--set", "output.path=" + out, "--set", "resources.workers=" + workers}, small...)...)
		data, err := os.ReadFile(filepath.Join(s.dir, out, "scores.json"))
		if err != nil {
			t.Fatal(err)
		}
		if i == 1 && string(data) != string(first) {
			t.Error("with 3 workers, scores.json differs")
		}
		first = data
	}
	var got map[string]json.RawMessage
	if err := json.Unmarshal(first, &got); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"motion": 5, "luminance": 5, "sharpness": 10} {
		var mean float64
		var videos []struct {
			Path   string  `json:"video_path"`
			Result float64 `json:"video_results"`
			Seed   int64   `json:"seed"`
		}
		if err := json.Unmarshal(got[name], &[]any{&mean, &videos}); err != nil || len(videos) != want {
			t.Errorf("dimension %s: got error %v and %d videos, want %d", name, err, len(videos), want)
			continue
		}
		sum := 0.0
		for _, v := range videos {
			sum += v.Result
			if _, err := os.Stat(filepath.Join(s.dir, "out1", v.Path)); err != nil || v.Seed == 0 {
				t.Errorf("the video of %+v does not exist: %v", v, err)
			}
		}
		if mean != sum/float64(want) {
			t.Errorf("dimension %s: the mean is %v, want %v", name, mean, sum/float64(want))
		}
	}
}

// TestPythonPackage runs the tests of the Python package.
func TestPythonPackage(t *testing.T) {
	testaid.Needs(t, "python3")
	cmd := exec.Command("python3", "-m", "unittest", "discover", "-s", "tests")
	cmd.Dir = "../../python/latentbeam-stage"
	cmd.Env = append(os.Environ(), "PYTHONPATH=src", "PYTHONDONTWRITEBYTECODE=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("the tests of the Python package: %v\n%s", err, out)
	}
}

// TestProgramsNeedTrust: run starts the programs of a job, because the YAML is the user's own. retry, which reads job.json of an
// output, and workers refuse programs unless a flag allows them.
func TestProgramsNeedTrust(t *testing.T) {
	job := "version: 1\nmodel: none\ninput: {prompts: prompts.csv}\ndefaults: {height: 16, width: 16, num_frames: 2, fps: 8}\n" +
		"stages:\n  - exec: " + exectest.Options("prompt", "video", t.TempDir(), fmt.Sprintf(", scratch: %q", t.TempDir())) + "\noutput: {path: out}\n"
	s := newShell(t, "job.yaml", job, "prompts.csv", "prompt\na circle\na square do:error-once\n", "token",
		"a token of the test processes\n")
	s.env = append(s.env, "LATENTBEAM_TEST_STATE=x")
	s.says(s.run(1, "run", "job.yaml"), "next: latentbeam retry out --allow-exec\n", "`latentbeam retry out --allow-exec` tries them again")
	s.says(s.run(2, "retry", "out", "--limit", "9"), "job.yaml:6", "runs a program here, and retry was not allowed to",
		"fix: if you trust who wrote the output: latentbeam retry out --limit 9 --allow-exec")
	s.says(s.run(0, "explain", "out", "prompts.csv:3"), "retry tries it again")
	s.run(0, "retry", "out", "--allow-exec")
	for _, c := range []struct {
		args []string
		exit int
	}{{nil, 2}, {[]string{"--allow-exec=sh x"}, 2}, {[]string{"--allow-exec"}, 0}} {
		_, addr := s.startWorker(c.args...)
		out := s.run(c.exit, "run", "job.yaml", "--output", fmt.Sprint("away", len(c.args), c.exit), "--set",
			fmt.Sprintf("resources.hosts=[%q]", addr),
			"--set", "resources.token_file=token", "--set", "resources.workers=0")
		if c.exit != 0 {
			s.says(out, "the worker was not allowed to", "--allow-exec")
		}
	}
}

// TestAllowedCommands: a list of commands allows exactly these commands. The job cannot add arguments or variables.
func TestAllowedCommands(t *testing.T) {
	var c commands
	for _, command := range []string{"python3  generate.py", "/opt/draw"} {
		if err := c.Set(command); err != nil {
			t.Fatal(err)
		}
	}
	specs := c.trusted(catalog.All(), "the worker")
	for options, want := range map[string]string{
		"command: [python3, generate.py]":               "",
		"command: [/opt/draw], params: [prompt]":        "",
		"command: [/opt/draw, --more]":                  "it may run python3 generate.py and /opt/draw; if you trust",
		"command: [/opt/draw], env: {LD_PRELOAD: x.so}": "take env out of the job",
		"command: [/opt/draw], log: x, scratch: /tmp":   "take log and scratch out of the job",
		"command: [sh, -c, python3 generate.py]":        "was not allowed to",
		"command: [python3, generate.py], batch: 2":     "batch is 2",
	} {
		o, err := config.ParseOptions("exec", "{takes: prompt, gives: video, "+options+"}")
		if err == nil {
			spec, _ := stages.Find(specs, "exec")
			_, err = spec.Of(o.Decode)
		}
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got error %v, want %s", options, err, want)
		}
	}
}

// TestDryRunStartsNoProgram: a dry run and a plan work without the program of a stage, and warn that a run would fail.
func TestDryRunStartsNoProgram(t *testing.T) {
	const job = "version: 1\nmodel: none\ninput: {prompts: prompts.csv}\ndefaults: {height: 16, width: 16, num_frames: 2, fps: 8}\n" +
		"stages:\n  - exec: {command: [no-such-program], takes: prompt, gives: video}\noutput: {path: out}\n"
	s := newShell(t, "job.yaml", job, "prompts.csv", "id,prompt\na,a circle\nb,\na,a square\n")
	s.says(s.run(0, "run", "job.yaml", "--dry-run"), "warning: a run would stop at once: ", `"no-such-program": executable file not found`,
		"disk is not estimated: stage exec is a program", "16x16x2", "warning: 1 prompt is without a word, the first in prompts.csv:3",
		`warning: 1 row has the id of another row, such as "a" in prompts.csv:2 and prompts.csv:4`)
	s.run(0, "plan", "job.yaml")
	s.says(s.run(2, "run", "job.yaml"), "job.yaml:6", `"no-such-program": executable file not found`)
	s.says(s.run(0, "run", "job.yaml", "--dry-run", "--set", "stages.exec.command=[sh, -c, 'touch started; exit 1']"),
		"no time is predicted")
	if _, err := os.Stat(filepath.Join(s.dir, "started")); err == nil {
		t.Error("the dry run has started the program")
	}
}

// TestExplainOptions: explain names the option that has changed, not the whole list of stages.
func TestExplainOptions(t *testing.T) {
	job := "version: 1\nmodel: none\ninput: {prompts: prompts.csv}\ndefaults: {height: 16, width: 16, num_frames: 2, fps: 8}\n" +
		"stages:\n  - exec: " + exectest.Options("prompt", "video", t.TempDir(), fmt.Sprintf(", scratch: %q", t.TempDir())) + "\noutput: {path: out}\n"
	s := newShell(t, "job.yaml", job, "prompts.csv", "id,prompt\na,a circle\n")
	s.run(0, "run", "job.yaml")
	s.write("job.yaml", strings.Replace(job, "takes: prompt", "params: [prompt, seed], timeout: 9m, takes: prompt", 1))
	text := s.run(0, "explain", "out", "a", "--job", "job.yaml")
	s.says(text, `changed: stages.exec.params, from (not given) to ["prompt","seed"]`)
	if strings.Contains(text, "timeout") || strings.Contains(text, "command") {
		t.Errorf("explain names an option that is in no key or has not changed:\n%s", text)
	}
}

// TestRecompute: verify --recompute computes rows again and compares them.
func TestRecompute(t *testing.T) {
	job := "version: 1\nmodel: none\ninput: {prompts: prompts.csv}\ndefaults: {height: 16, width: 16, num_frames: 2, fps: 8}\n" +
		"stages:\n  - exec: {command: [python3, draw.py], takes: prompt, gives: frames, deterministic: true}\n  - encode_video\noutput: {path: out}\n"
	testaid.Needs(t, "python3")
	const draw = "import os\nfrom latentbeam_stage import Tensor, stage\n\n@stage(takes='prompt', gives='frames')\ndef draw(rows):\n" +
		"    for row in rows:\n        colour = %s\n        yield Tensor('U8', [2, 16, 16, 3], bytes([colour]) * 1536)\n\n\ndraw.run()\n"
	s := newShell(t)
	s.run(0, "init", "--template", "exec")
	s.write("job.yaml", job)
	s.write("prompts.csv", "id,prompt\na,a circle\nb,a square\n")
	s.write("draw.py", fmt.Sprintf(draw, "len(row.prompt)"))
	s.run(0, "run", "job.yaml")
	s.says(s.run(0, "verify", "out", "--recompute", "2", "--allow-exec"), "2 rows were computed again, and have the same results")
	s.write("draw.py", fmt.Sprintf(draw, "200"))
	s.says(s.run(1, "verify", "out", "--recompute", "2", "--allow-exec"), "differs    prompts.csv:2: the video", "2 results are others")
	s.write("job.yaml", strings.Replace(job, ", deterministic: true", "", 1))
	s.run(0, "run", "job.yaml", "--output", "other")
	s.says(s.run(2, "verify", "other", "--recompute", "1", "--allow-exec"), "stage exec may give different results",
		"deterministic: true")
	summary, err := os.ReadFile(filepath.Join(s.dir, "other", "summary.json"))
	if err != nil || !strings.Contains(string(summary), `"varies": "exec"`) {
		t.Errorf("summary.json does not say that exec may vary: %v", err)
	}
}

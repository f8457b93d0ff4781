package config

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"latentbeam/internal/config/document"
	"latentbeam/schemas"
)

var update = flag.Bool("update", false, "rewrite the golden messages in testdata")

// TestBadFiles: every testdata/bad/NAME.yaml fails with the text of NAME.txt. A first line "# --set a=b" adds a flag.
func TestBadFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d bad files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var sets []string
			for line := range strings.Lines(string(text)) {
				if set, ok := strings.CutPrefix(strings.TrimSpace(line), "# --set "); ok {
					sets = append(sets, set)
				}
			}
			_, err = Parse(filepath.Base(file), string(text), sets)
			if err == nil {
				t.Fatal("the file loads")
			}
			var problem *document.Error
			if !errors.As(err, &problem) || problem.ExitCode() != 2 {
				t.Fatalf("%T is not an *Error with exit code 2", err)
			}
			golden(t, strings.TrimSuffix(file, ".yaml")+".txt", err.Error()+"\n")
		})
	}
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil || got != string(want) {
		t.Errorf("got:\n%s\nwant:\n%s(%v; run with -update if the new text is better)", got, want, err)
	}
}

func mustParse(t *testing.T, text string, sets ...string) *Config {
	t.Helper()
	c, err := Parse("job.yaml", text, sets)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestDefaultLoads(t *testing.T) {
	c := mustParse(t, Default())
	if c.Model.Path != "tiny" || len(c.Stages) != 5 || c.Defaults.NumFrames != 16 || *c.Defaults.Seed != 42 {
		t.Errorf("%+v", c)
	}
	uncommented := strings.NewReplacer("  # num", "  num", "  # guid", "  guid", "\n# resources", "\nresources",
		"\n# on_error", "\non_error", "\n# drain", "\ndrain", "  # columns", "  columns").Replace(Default())
	c = mustParse(t, uncommented)
	if c.Defaults.NumInferenceSteps != 50 || *c.Defaults.GuidanceScale != 4 || c.Resources.Memory != 2<<30 ||
		c.Input.Columns["prompt"] != "my_caption" {
		t.Errorf("the example with its optional lines uncommented gives %+v", c)
	}
}

const full = `
version: 1
model: {text_encoder: t5, transformer: dit, vae: vae}
input:
  latents: [a/*.parquet, b.parquet]
  format: parquet
  columns: {prompt: my text, num_frames: n}
defaults: {height: 64, width: 128, num_frames: 16, fps: 23.976, seed: 0, num_inference_steps: 10,
  guidance_scale: 0, negative_prompt: "blur", max_sequence_length: 120, num_videos_per_prompt: 4}
stages:
  - encode_text
  - denoise: {sequence_parallel: auto}
  - encode_video:
output: {path: out, write: [video, latents], rows_per_file: 1000}
runner: {name: prism}
resources: {workers: 3, threads: 8, memory: 512MiB, batch_size: 4}
on_error: {stop_after: 20, min_rows: 0, retries: 0}
drain_timeout: 1m30s
`

// TestExponents: numbers with an exponent need no point, as in JSON; in quotes they are texts.
func TestExponents(t *testing.T) {
	for text, want := range map[string]float64{"1e0": 1, "5e-1": 0.5, "2E+1": 20, "2.5e1": 25} {
		c := mustParse(t, presetJob+"defaults: {guidance_scale: "+text+"}\n")
		if row := c.Defaults.Row(); row.Guidance() != want {
			t.Errorf("%s is %v, want %v", text, row.Guidance(), want)
		}
	}
	if c := mustParse(t, presetJob+"defaults: {negative_prompt: '1e3'}\n"); c.Defaults.NegativePrompt != "1e3" {
		t.Errorf("a text in quotes is %q", c.Defaults.NegativePrompt)
	}
}

func TestEveryKey(t *testing.T) {
	c := mustParse(t, full)
	seed, guidance := int64(0), 0.0
	want := Config{Version: 1, Model: Model{TextEncoder: "t5", Transformer: "dit", VAE: "vae"},
		Input: Input{Latents: StringList{"a/*.parquet", "b.parquet"}, Format: "parquet",
			Columns: map[string]string{"prompt": "my text", "num_frames": "n"}},
		Defaults: Defaults{Height: 64, Width: 128, NumFrames: 16, FPS: 23.976, Seed: &seed, NumInferenceSteps: 10,
			GuidanceScale: &guidance, NegativePrompt: "blur", MaxSequenceLength: 120, NumVideosPerPrompt: 4},
		Stages:       c.Stages,
		Output:       Output{Path: "out", Write: StringList{"video", "latents"}, RowsPerFile: 1000},
		Runner:       Runner{Name: "prism"},
		Resources:    Resources{Workers: 3, Threads: 8, Memory: 512 << 20, BatchSize: 4},
		OnError:      OnError{StopAfter: Tolerance{Count: 20, ByCount: true}},
		DrainTimeout: Duration(90 * time.Second), src: c.src, root: c.root}
	if !reflect.DeepEqual(*c, want) {
		t.Errorf("got  %+v\nwant %+v", *c, want)
	}
	if kind, paths := c.Input.Source(); kind != LatentInput || len(paths) != 2 {
		t.Error(kind, paths)
	}
	row := c.Defaults.Row()
	if row.Height != 64 || row.Guidance() != 0 || row.GuidanceScale == nil || row.Seed != nil {
		t.Errorf("%+v", row)
	}
}

func TestDefaultsOfTheFile(t *testing.T) {
	c := mustParse(t, "version: 1\nmodel: tiny\ninput: {prompts: p.csv}\nstages: [denoise]\noutput: {path: o}\n"+
		"defaults:\n  height:\nresources:\n")
	if c.Runner.Name != "local" || c.Resources.Workers != 1 || c.Resources.Memory != 0 ||
		!c.Output.Writes("video") || c.Output.Writes("latents") || c.Input.Format != "auto" ||
		c.OnError.Retries != 3 || time.Duration(c.DrainTimeout) != 30*time.Second {
		t.Errorf("%+v", c)
	}
}

func TestSet(t *testing.T) {
	c := mustParse(t, full, "defaults.height=256", "stages.encode_text.cache=true",
		"stages.denoise.sequence_parallel=2", "stages.encode_video.codec=h264", "output.path=other dir",
		"input.latents=[x.parquet]", "drain_timeout=5s", "output.write=latents", "defaults.seed=")
	var opts struct {
		SequenceParallel schemas.AutoInt `yaml:"sequence_parallel"`
	}
	if err := c.Stages[1].Options.Decode(&opts); err != nil || opts.SequenceParallel != 2 {
		t.Error(opts, err)
	}
	text, _ := json.Marshal(c.Stages)
	if want := `[{"encode_text":{"cache":true}},{"denoise":{"sequence_parallel":2}},` +
		`{"encode_video":{"codec":"h264"}}]`; string(text) != want {
		t.Errorf("got %s", text)
	}
	if c.Defaults.Height != 256 || c.Output.Path != "other dir" || c.Input.Latents[0] != "x.parquet" ||
		c.Output.Write[0] != "latents" || c.Defaults.Seed != nil {
		t.Errorf("%+v", c)
	}
	// A file without a section gets it from the flag.
	c = mustParse(t, "version: 1\nmodel: tiny\ninput: {prompts: p.csv}\nstages: [denoise]\n",
		"output.path=o", "defaults.fps=8", "on_error.stop_after=0.5%")
	if c.Output.Path != "o" || c.Defaults.FPS != 8 || c.OnError.StopAfter.Fraction != 0.005 {
		t.Errorf("%+v", c)
	}
}

func TestAt(t *testing.T) {
	c := mustParse(t, full, "output.path=flagged")
	for path, want := range map[string]string{
		"defaults.height":                  "job.yaml:8:20",
		"model":                            "job.yaml:3:1",
		"model.vae":                        "job.yaml:3:50",
		"stages.denoise":                   "job.yaml:12:5",
		"stages.1":                         "job.yaml:12:5",
		"stages.denoise.sequence_parallel": "job.yaml:12:34",
		"stages.denoise.nothing":           "job.yaml:12:5",
		"stages.nothing":                   "job.yaml:10:1",
		"output.path":                      "--set output.path=flagged",
		"resources.memory":                 "job.yaml:16:45",
		"nothing.at.all":                   "job.yaml",
	} {
		if got := c.At(path).String(); got != want {
			t.Errorf("At(%q) = %s, want %s", path, got, want)
		}
	}
	err := c.Errorf("stages.denoise", "no stage %q", "denoise").WithFix("use %s", "denoise_image")
	golden(t, "testdata/errorf.txt", err.Error()+"\n")
}

func TestOptionsDecode(t *testing.T) {
	type options struct {
		Reject []string       `yaml:"reject"`
		Limit  float64        `yaml:"limit"`
		On     bool           `yaml:"on"`
		After  Duration       `yaml:"after"`
		Names  map[string]int `yaml:"names"`
		Size   *ByteSize      `yaml:"size"`
	}
	got := options{Limit: 0.5, On: true}
	o, err := ParseOptions("guard", "reject: [nan, black]\nafter: 2s\nnames: {a: 1}\nsize: 1.5KB\nlimit:")
	if err == nil {
		err = o.Decode(&got)
	}
	size := ByteSize(1500)
	want := options{Reject: []string{"nan", "black"}, Limit: 0.5, On: true, After: Duration(2 * time.Second),
		Names: map[string]int{"a": 1}, Size: &size}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	o, _ = ParseOptions("guard", "rejct: [nan]\non: yes\nafter: 5\nnames: [a]\nlimit: high\nreject: [1]")
	err = o.Decode(&got)
	golden(t, "testdata/options.txt", err.Error()+"\n"+o.Errorf("on", "must be off").Error()+"\n")
	if err := o.Decode(got); err == nil {
		t.Error("decoding into a value that is not a pointer gives no error")
	}
	if err := (Options{}).Decode(&got); err != nil {
		t.Error(err)
	}
}

func TestStop(t *testing.T) {
	part := OnError{StopAfter: Tolerance{Fraction: 0.05}, MinRows: 200}
	count := OnError{StopAfter: Tolerance{Count: 3, ByCount: true}, MinRows: 200}
	for _, c := range []struct {
		rule         OnError
		seen, failed int64
		want         bool
	}{
		{part, 199, 199, false}, {part, 200, 10, false}, {part, 200, 11, true}, {part, 1000, 50, false},
		{count, 4, 3, false}, {count, 4, 4, true},
		{OnError{StopAfter: Tolerance{ByCount: true}}, 1, 1, true},
		{OnError{StopAfter: Tolerance{Fraction: 1}}, 500, 500, false},
	} {
		if got := c.rule.Stop(c.seen, c.failed); got != c.want {
			t.Errorf("%+v.Stop(%d, %d) = %v", c.rule, c.seen, c.failed, got)
		}
	}
}

func TestCanonicalJSON(t *testing.T) {
	a, err := mustParse(t, full).CanonicalJSON()
	if err != nil {
		t.Fatal(err)
	}
	var pretty map[string]any
	if err := json.Unmarshal(a, &pretty); err != nil {
		t.Fatal(err)
	}
	indented, _ := json.MarshalIndent(pretty, "", "  ")
	golden(t, "testdata/canonical.json", string(indented)+"\n")
	reordered := strings.Replace(full, "{workers: 3, threads: 8,", "{threads: 8, workers: 3,", 1)
	if b, _ := mustParse(t, reordered).CanonicalJSON(); string(a) != string(b) {
		t.Error("the order of keys changed the canonical form")
	}
}

func TestDefault(t *testing.T) {
	if _, err := Parse("job.yaml", Default(), []string{"output.path=x"}); err != nil {
		t.Error(err)
	}
}

// TestHostileText: hostile text gives an error within a short time, and never a panic.
func TestHostileText(t *testing.T) {
	for name, text := range map[string]string{
		"deep lists":   strings.Repeat("[", 100_000),
		"deep maps":    strings.Repeat("{a: ", 60) + strings.Repeat("}", 60),
		"deep blocks":  deepBlock(300),
		"aliases":      "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]",
		"merge":        "a: &a {x: 1}\nb:\n  <<: *a",
		"tag":          "version: !!binary aGk=",
		"huge":         strings.Repeat("# comment\n", 200_000),
		"zero bytes":   "version: 1\x00\x00",
		"invalid utf8": "version: 1\nmodel: \xff\xfe",
		"only comment": "# nothing",
		"two docs":     "version: 1\n---\nversion: 1",
		"anchor only":  "&a",
		"question":     "? [a, b]\n: c",
	} {
		start := time.Now()
		_, err := Parse("x.yaml", text, nil)
		if took := time.Since(start); err == nil || took > time.Minute { // takes milliseconds on an idle machine
			t.Errorf("%s: %v after %v", name, err, took)
		} else if len(err.Error()) > 4000 {
			t.Errorf("%s: a message of %d bytes", name, len(err.Error()))
		}
	}
}

func deepBlock(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

func FuzzParse(f *testing.F) {
	f.Add(full)
	f.Add(Default())
	f.Add("stages: [a: {b: c}]")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse("x.yaml", text, []string{"stages.a.b=c", "defaults.height=1"})
		if (c == nil) == (err == nil) {
			t.Error("Parse returns both a configuration and an error, or neither")
		}
		if c != nil {
			if _, err := c.CanonicalJSON(); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestAutoIntIsStrict: a number in quotes or with a fraction is not a whole number.
func TestAutoIntIsStrict(t *testing.T) {
	for text, ok := range map[string]bool{"auto": true, "3": true, "0x10": true, `"3"`: false, "2.0": false, "0": false} {
		o, err := ParseOptions("denoise", "n: "+text)
		if err != nil {
			t.Fatal(err)
		}
		var into struct {
			N schemas.AutoInt `yaml:"n"`
		}
		if err := o.Decode(&into); (err == nil) != ok {
			t.Errorf("%s: %v, %v", text, into.N, err)
		}
	}
}

package exec

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"latentbeam/internal/config"
	"latentbeam/internal/system"
	"latentbeam/internal/system/testaid"
	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
	"latentbeam/stages/exec/exectest"
)

func TestMain(m *testing.M) {
	exectest.Main()
	firstBackoff = 10 * time.Millisecond
	os.Exit(m.Run())
}

// optionsOf reads options as a job has them.
func optionsOf(t *testing.T, yaml string) stages.Options {
	t.Helper()
	o, err := configOptions(yaml)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func configOptions(yaml string) (stages.Options, error) {
	o, err := config.ParseOptions("exec", yaml)
	return o.Decode, err
}

// openStage opens a stage whose program is this test binary, and returns it with its scratch directory. At the end of the test it
// checks that the directory is empty.
func openStage(t *testing.T, takes, gives, more string) (*stage, string) {
	t.Helper()
	if err := supported(); err != nil {
		t.Skip(err)
	}
	scratch := t.TempDir()
	options := exectest.Options(takes, gives, t.TempDir(), fmt.Sprintf(", scratch: %q%s", scratch, more))
	s, err := open(nil, optionsOf(t, options))
	if err != nil {
		t.Fatal(err)
	}
	st := s.(*stage)
	t.Cleanup(func() {
		st.programs.close()
		if left, _ := filepath.Glob(filepath.Join(scratch, "*")); len(left) > 0 {
			t.Errorf("files are left: %v", left)
		}
	})
	return st, scratch
}

// element is a row with a prompt.
func element(prompt string) *stages.Element {
	seed, guidance := int64(7), 1.0
	return &stages.Element{Key: sha256.Sum256([]byte(prompt)), Row: schemas.PromptRow{ID: prompt, Prompt: prompt, Seed: &seed,
		Height: 16, Width: 24, NumFrames: 3, FPS: 8, GuidanceScale: &guidance}}
}

// device is a backend that says which GPU it is.
type device struct {
	kernels.Backend
	uuid string
}

func (d device) Capabilities() kernels.Capabilities { return kernels.Capabilities{UUID: d.uuid} }

func onCPU(t *testing.T) kernels.Backend { return device{cpu.New(1), ""} }

// TestPromptToFrames: five prompts in two batches. One row fails by the program's own error; the others get frames and readings. The
// files of the batches are removed, and one program does both batches.
func TestPromptToFrames(t *testing.T) {
	s, scratch := openStage(t, "prompt", "frames", ", batch: 4, batch_invariant: true")
	batch := []*stages.Element{element("a"), element("b do:stdout"), element("c do:error"), element("d"), element("e")}
	if err := s.Run(t.Context(), onCPU(t), batch); err != nil {
		t.Fatal(err)
	}
	for i, e := range batch {
		switch {
		case i == 2:
			if e.Failed == nil || e.Failed.Message != "the program says no" || e.Failed.Class != fault.ClassRow {
				t.Errorf("%s: got the failure %v, want the program says no, of class row", e.Row.Prompt, e.Failed)
			}
		case e.Failed != nil:
			t.Errorf("%s failed: %v", e.Row.Prompt, e.Failed)
		case len(e.Frames.Frames) != 3 || e.Frames.Width != 24 || e.Frames.Height != 16 || e.Frames.FPS != 8:
			t.Errorf("%s: got %d frames of %dx%d, want 3 of 24x16 at 8 fps", e.Row.Prompt, len(e.Frames.Frames), e.Frames.Width, e.Frames.Height)
		case e.Readings["seed"] != "7":
			t.Errorf("%s: got the readings %v, want a seed of 7", e.Row.Prompt, e.Readings)
		}
	}
	if batch[0].Frames.Frames[0][0] == batch[1].Frames.Frames[0][0] {
		t.Error("two prompts have the same frames")
	}
	if left, _ := filepath.Glob(filepath.Join(scratch, "*", "*-*")); len(left) > 0 {
		t.Errorf("files of batches are left: %v", left)
	}
	if n := len(s.programs.taken); n != 1 {
		t.Errorf("got %d programs for two batches one after the other, want 1", n)
	}
}

// TestEveryKind passes values of every kind through the program.
func TestEveryKind(t *testing.T) {
	e := element("a circle")
	latents := stages.NewArray(4, 3, 2, 3)
	for i := range latents.Data {
		latents.Data[i] = float32(i) / 3
	}
	e.Latents, e.LatentScale = latents, 0.5
	s, _ := openStage(t, "latents", "latents", "")
	if err := s.Run(t.Context(), onCPU(t), []*stages.Element{e}); err != nil || e.Failed != nil {
		t.Fatal(err, e.Failed)
	}
	if !slices.Equal(e.Latents.Data, latents.Data) || !slices.Equal(e.Latents.Shape, latents.Shape) || e.Latents == latents {
		t.Errorf("got latents %v, want a copy with the same shape and values", e.Latents)
	}
	for _, c := range []struct {
		takes, gives string
		check        func(e *stages.Element) bool
	}{
		{"prompt", "text", func(e *stages.Element) bool { return len(e.Text.Embedding.Data) == 24 }},
		{"text", "latents", func(e *stages.Element) bool { return len(e.Latents.Data) == 4*2*2*2 }},
		{"latents", "frames", func(e *stages.Element) bool { return len(e.Frames.Frames) == 2 }},
		{"frames", "video", func(e *stages.Element) bool {
			return e.Video.Codec == "png" && e.Video.Width == 16 && e.Poster != nil
		}},
		{"video", "prompt", func(e *stages.Element) bool { return e.Readings["prompt"] == e.Row.Prompt }},
		{"media", "frames", func(e *stages.Element) bool { return len(e.Frames.Frames) == 2 }},
	} {
		e.Row.Media = "some.mp4"
		s, _ := openStage(t, c.takes, c.gives, "")
		if err := s.Run(t.Context(), onCPU(t), []*stages.Element{e}); err != nil || e.Failed != nil {
			t.Fatalf("%s to %s: %v %v", c.takes, c.gives, err, e.Failed)
		}
		if !e.Has(stages.Kind(c.gives)) || !c.check(e) {
			t.Errorf("%s to %s: got the element %+v, without a result as the program makes it", c.takes, c.gives, e)
		}
	}
}

// TestTrouble lets the program misbehave in every way that it knows. Each failure has the expected class and text, and the next row
// is done by one program, a new one if the first has died.
func TestTrouble(t *testing.T) {
	defer func(d time.Duration) { grace = d }(grace)
	grace = 3 * time.Second // an idle machine needs much less
	for _, c := range []struct {
		how, gives, more, want string // more: further options
		row                    bool   // only the row fails; otherwise the error says to try the batch again
	}{
		{"crash", "frames", "", "crash: it ended with status 2; the last it printed: ", false},
		{"exit", "frames", "", "crash: it ended with status 3; the last it printed: out of luck", false},
		{"killed", "frames", "", "crash: it was ended by the signal killed, as the system does when memory is short", false},
		{"memory", "frames", ", memory: 900MB", "", false}, // the text is of the program or of the system
		{"hang", "frames", ", heartbeat: 400ms", "hang: it has sent no heartbeat for 400ms", false},
		{"slow", "frames", ", timeout: 600ms", "timeout: the batch took more than 600ms", false},
		{"missing", "frames", "", "protocol: the batch is done, but 1 of 1 rows have no answer", false},
		{"unknown", "frames", "", `protocol: a result has the key "0123", which no row of the batch has`, false},
		{"twice", "frames", "", "protocol: two answers have the same key", false},
		{"other", "frames", "", "protocol: a done is of batch 8, not of batch 1", false},
		{"garbage", "frames", "", `protocol: a line on descriptor 4 is not a message: "Loading`, false},
		{"strange", "frames", "", `protocol: an error has the unknown class "strange"`, false},
		{"retry", "frames", "", "the program says no", false},
		{"children", "frames", "", "crash: it ended with status 1", false},
		{"shape", "frames", "", "answer: the frames are U8 [3 384 3]: U8 (frames, height, width, 3) is wanted", true},
		{"outside", "frames", "", "answer: the file outside lies outside of the scratch directory of the batch", true},
		{"link", "frames", "", "lies outside of the scratch directory of the batch", true},
		{"nofile", "frames", "", "answer: the file nofile is not there", true},
	} {
		t.Run(c.how, func(t *testing.T) {
			if c.how == "memory" && runtime.GOOS != "linux" {
				t.Skip("only Linux limits the memory of another process")
			}
			s, _ := openStage(t, "prompt", c.gives, c.more)
			e := element("do:" + c.how)
			err := s.Run(t.Context(), onCPU(t), []*stages.Element{e})
			if c.row {
				if err != nil || e.Failed == nil || !strings.Contains(e.Failed.Message, c.want) {
					t.Errorf("error %v, failure %v; want %s", err, e.Failed, c.want)
				}
			} else if err == nil || fault.ClassOf(err) != fault.ClassRetry || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v of class %v; want %s", err, fault.ClassOf(err), c.want)
			}
			well := element("well")
			if err := s.Run(t.Context(), onCPU(t), []*stages.Element{well}); err != nil || well.Failed != nil || well.Frames == nil {
				t.Errorf("the next row: got error %v and failure %v, want frames", err, well.Failed)
			}
			if n := len(s.programs.taken); n != 1 {
				t.Errorf("got %d programs at the same time, want 1", n)
			}
		})
	}
}

// TestMemoryBound: a program that reaches its memory limit fails as out of memory, even if its children use most of the
// memory. Its control group is removed afterwards.
func TestMemoryBound(t *testing.T) {
	parent, err := system.ParentGroup()
	if err != nil {
		t.Skip("NOT TESTED: no control group can be made here: ", err)
	}
	s, _ := openStage(t, "prompt", "frames", ", memory: 200MB")
	for _, how := range []string{"memory", "heavy"} {
		err = s.Run(t.Context(), onCPU(t), []*stages.Element{element("do:" + how)})
		if !fault.IsOutOfMemory(err) || err.Error() != "memory: the system killed it at its bound, the option memory" {
			t.Errorf("%s: %v", how, err)
		}
	}
	well := element("well")
	if err := s.Run(t.Context(), onCPU(t), []*stages.Element{well}); err != nil || well.Failed != nil {
		t.Error(err, well.Failed)
	}
	s.programs.close()
	if left, _ := filepath.Glob(filepath.Join(parent, "latentbeam-*")); len(left) > 0 {
		t.Errorf("control groups are left: %v", left)
	}
}

// TestChildrenAreEnded: the processes that a program has started end with it.
func TestChildrenAreEnded(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("it looks into /proc")
	}
	s, _ := openStage(t, "prompt", "frames", "")
	if err := s.Run(t.Context(), onCPU(t), []*stages.Element{element("well")}); err != nil {
		t.Fatal(err)
	}
	group := s.programs.idle[0].child.PID()
	if len(members(group)) != 1 {
		t.Fatalf("the group of the program has %v", members(group))
	}
	err := s.Run(t.Context(), onCPU(t), []*stages.Element{element("do:children")})
	if err == nil || !strings.Contains(err.Error(), "status 1") {
		t.Fatal(err)
	}
	for tries := 0; len(members(group)) > 0; tries++ {
		if tries > 100 {
			t.Fatalf("processes are left: %v", members(group))
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// TestEscapedProcessesAreEnded: a process that has left the program's process group also ends with the program.
func TestEscapedProcessesAreEnded(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("it looks into /proc")
	}
	s, _ := openStage(t, "prompt", "frames", "")
	if err := s.Run(t.Context(), onCPU(t), []*stages.Element{element("well")}); err != nil {
		t.Fatal(err)
	}
	variable := "LATENTBEAM_SCRATCH=" + s.programs.dir
	if n := len(inheritors(variable)); n != 2 {
		t.Fatalf("got %d processes with the environment of the program, want 2: the program and its keeper", n)
	}
	err := s.Run(t.Context(), onCPU(t), []*stages.Element{element("do:session")})
	if err == nil || !strings.Contains(err.Error(), "status 1") {
		t.Fatal(err)
	}
	if left := inheritors(variable); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
}

// inheritors lists the processes whose environment has the variable, without zombies, which have no environment.
func inheritors(variable string) (found []string) {
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range all {
		if env, _ := os.ReadFile(name); slices.Contains(strings.Split(string(env), "\x00"), variable) {
			found = append(found, name)
		}
	}
	return found
}

// members lists the processes of a group, without zombies that their new parent has not waited for yet.
func members(group int) (found []string) {
	all, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range all {
		data, _ := os.ReadFile(name)
		_, rest, _ := strings.Cut(string(data), ") ")
		if f := strings.Fields(rest); len(f) > 2 && f[2] == fmt.Sprint(group) && f[0] != "Z" {
			found = append(found, name)
		}
	}
	return found
}

// TestCancel: a job is cancelled during a batch. A program that then gives up its batch ("wait") is kept for the next one; a program
// that goes on ("slow") is ended. Run returns the cause of the cancellation.
func TestCancel(t *testing.T) {
	defer func(d time.Duration) { grace = d }(grace)
	grace = time.Second
	for how, alive := range map[string]int{"wait": 1, "slow": 0} {
		s, _ := openStage(t, "prompt", "frames", "")
		if err := s.Run(t.Context(), onCPU(t), []*stages.Element{element("well")}); err != nil { // start the program before the 200 ms begin
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("that is enough")
		time.AfterFunc(200*time.Millisecond, func() { cancel(why) })
		if err := s.Run(ctx, onCPU(t), []*stages.Element{element("do:" + how)}); !errors.Is(err, why) {
			t.Errorf("%s: got error %v, want %v", how, err, why)
		}
		if n := len(s.programs.idle); n != alive {
			t.Errorf("%s: %d programs are kept, want %d", how, n, alive)
		}
	}
}

// TestDevices: a program runs on the device of its batch, identified by UUID, and there are at most as many programs as
// workers.
func TestDevices(t *testing.T) {
	s, _ := openStage(t, "prompt", "frames", ", workers: 1")
	for _, uuid := range []string{"GPU-1", "GPU-2", "GPU-2", "GPU-1"} {
		e := element("on " + uuid)
		if err := s.Run(t.Context(), device{cpu.New(1), uuid}, []*stages.Element{e}); err != nil {
			t.Fatal(err)
		}
		if got := e.Readings["device"]; got != uuid {
			t.Errorf("a program for %s: got the device %q", uuid, got)
		}
	}
	if n := len(s.programs.taken); n != 1 {
		t.Errorf("got %d programs at the same time, want 1", n)
	}
}

// TestProgress: the steps that a program reports are passed on as progress.
func TestProgress(t *testing.T) {
	s, _ := openStage(t, "prompt", "frames", ", batch: 2, batch_invariant: true")
	var told []string
	ctx := stages.WithProgress(t.Context(), func(done, of int) { told = append(told, fmt.Sprintf("%d/%d", done, of)) })
	if err := s.Run(ctx, onCPU(t), []*stages.Element{element("one"), element("two")}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"1/4", "3/4"}; !slices.Equal(told, want) { // of the 2 x 2 steps, the program reports 1 of the first row, then 2 of the second
		t.Errorf("progress %v, want %v", told, want)
	}
}

// TestReadings: a reading is a text; numbers and booleans are stored as their JSON text.
func TestReadings(t *testing.T) {
	a, err := parseAnswer([]byte(`{"type":"result","readings":{"a":"x","b":0.250,"c":true}}`))
	if err != nil || a.Readings["a"] != "x" || a.Readings["b"] != "0.250" || a.Readings["c"] != "true" {
		t.Errorf("%+v, %v", a.Readings, err)
	}
	for line, want := range map[string]string{
		`{"type":"result","readings":{"q":[1]}}`:  `the reading "q" is "[1]": a text or a number is wanted`,
		`{"type":"result","readings":{"q":null}}`: `the reading "q" is "null"`,
		`{"type":"result","readings":[1]}`:        "readings is no object",
		`{"type":"result","batch":"1"}`:           "a result has batch of the type string: int is wanted",
		`{"type":`:                                "is not a message",
	} {
		if _, err := parseAnswer([]byte(line)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
}

// TestSet: a program may use several devices, all on its own host.
func TestSet(t *testing.T) {
	s, _ := openStage(t, "prompt", "frames", ", devices: 2")
	run := s.Capabilities().Spread.Run
	gpu := func(uuids ...string) (all []kernels.Backend) {
		for _, u := range uuids {
			all = append(all, device{cpu.New(1), u})
		}
		return all
	}
	e := element("on two")
	if err := run(t.Context(), &stages.Set{Devices: gpu("GPU-2", "GPU-1"), Speeds: []float64{1, 1}}, []*stages.Element{e}); err != nil {
		t.Fatal(err)
	}
	if got := e.Readings["device"]; got != "GPU-1,GPU-2" {
		t.Errorf("got the devices %q, want GPU-1,GPU-2", got)
	}
	for _, c := range []struct {
		set  *stages.Set
		want string
	}{
		{&stages.Set{Devices: gpu("GPU-1"), Speeds: []float64{1, 1}}, "has its 2 devices on one host"},
		{&stages.Set{Devices: gpu("GPU-1"), Speeds: []float64{1}}, "needs 2 devices, and 1 are left"},
	} {
		if err := run(t.Context(), c.set, []*stages.Element{element("x")}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v; want %s", err, c.want)
		}
	}
}

// TestDoesNotStart: if the program never says hello, the job ends with an error; its rows do not fail one by one.
func TestDoesNotStart(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ command, want string }{
		{"[sh, -c, 'echo no such model >&2; exit 7']", "start: it ended with status 7; the last it printed: no such model"},
		{`[sh, -c, 'printf "Traceback (most recent call last):\n  File \"/x/gen.py\", line 2, in <module>\n    import nosuch\nModuleNotFoundError: No module named \047nosuch\047\n"; exit 1']`,
			"No module named 'nosuch' (gen.py, line 2); install it: /"},
		{"[sh, -c, 'echo hello world']", "start: it ended; the last it printed: hello world; a program says hello on descriptor 4"},
		{"[sh, -c, 'echo {} >&4']", `a message has the unknown type ""`},
		{fmt.Sprintf("[env, LATENTBEAM_TEST_GIVES=video, LATENTBEAM_TEST_TAKES=prompt, %q]", program),
			"start: it takes prompt and gives video, the job says takes: prompt, gives: frames"},
	} {
		s, err := open(nil, optionsOf(t, "{command: "+c.command+", takes: prompt, gives: frames}"))
		if err != nil {
			t.Fatal(err)
		}
		for tries := 1; ; tries++ {
			err = s.Run(t.Context(), onCPU(t), []*stages.Element{element("x")})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %s", err, c.want)
			}
			if fault.ClassOf(err) == fault.ClassFatal || tries > maxStarts {
				break
			}
		}
		if fault.ClassOf(err) != fault.ClassFatal {
			t.Errorf("after %d starts: got error %v, want one of class fatal", maxStarts, err)
		}
		s.Capabilities().Close()
	}
}

// TestNoHello: while a program has not said hello, this is reported, and after a deadline of its own it is stopped.
func TestNoHello(t *testing.T) {
	defer func(a, b time.Duration) { noteEvery, firstWarning = a, b }(noteEvery, firstWarning)
	noteEvery, firstWarning = 20*time.Millisecond, 100*time.Millisecond
	log := testaid.Log(t)
	s, err := open(nil, optionsOf(t, "{command: [sh, -c, 'echo loading; sleep 60'], takes: prompt, gives: frames, start_timeout: 500ms}"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Capabilities().Close()
	var notes []string
	ctx := stages.WithNote(t.Context(), func(note string) { notes = append(notes, note) })
	began := time.Now()
	err = s.Run(ctx, onCPU(t), []*stages.Element{element("x")})
	if err == nil || !strings.Contains(err.Error(),
		"start: it sent no hello within 500ms, the start_timeout; the last it printed: loading") {
		t.Errorf("%v", err)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it was given up after %v", took)
	}
	if len(notes) < 3 || !strings.HasPrefix(notes[0], "its program has sent no hello for ") || notes[len(notes)-1] != "" {
		t.Errorf("notes %q", notes)
	}
	if text := log.String(); strings.Count(text, "has not said hello") != 2 || !strings.Contains(text, "last_printed=loading") {
		t.Errorf("log:\n%s", text)
	}
}

// TestReady: before a job starts, Ready reports a program that cannot be found.
func TestReady(t *testing.T) {
	for command, want := range map[string]string{"sh": "", "no-such-program": `"no-such-program": executable file not found`} {
		s, err := open(nil, optionsOf(t, "{command: ["+command+"], takes: prompt, gives: video}"))
		if err != nil {
			t.Fatal(err)
		}
		err = s.Capabilities().Ready()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v; want %q", command, err, want)
		}
	}
}

// TestOptions: each set of wrong options is refused with an error that names the option.
func TestOptions(t *testing.T) {
	for options, want := range map[string]string{
		"{takes: prompt, gives: video}":                                               "command is missing",
		"{command: [sh], gives: video}":                                               "takes is missing: write one of prompt, text",
		"{command: [sh], takes: prompt}":                                              "gives is missing",
		"{command: [sh], takes: picture, gives: video}":                               `takes is "picture"; known: prompt, text, media, latents, frames, video`,
		"{command: [sh], takes: prompt, gives: video, params: [caption]}":             `params names "caption"; write prompt, whose`,
		"{command: [sh], takes: prompt, gives: video, params: [loop]}":                `params names "loop"; a program does not get`,
		"{command: [sh], takes: prompt, gives: video, params: [seed, seed]}":          `params names "seed" twice`,
		"{command: [sh], takes: prompt, gives: video, batch: 2}":                      "write batch_invariant: true",
		"{command: [sh], takes: prompt, gives: video, batch: 0, batch_invariant: on}": "batch",
		"{command: [sh], takes: prompt, gives: video, devices: 0}":                    "devices is 0: give 1 to",
		"{command: [sh], takes: prompt, gives: video, digest: [no-such-file]}":        `digest: "no-such-file" matches no file`,
		"{command: [sh], takes: prompt, gives: video, secrets: [NO_SUCH_SECRET]}":     "export NO_SUCH_SECRET",
		"{command: [sh], takes: prompt, gives: video, timeout: 30}":                   "must be a time with its unit",
		"{command: sh, takes: prompt, gives: video}":                                  "must be a list",
		"{command: [sh], takes: prompt, gives: video, tokes: x}":                      `unknown key "tokes"`,
	} {
		_, err := open(nil, optionsOf(t, options))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %s", options, err, want)
		}
	}
}

// TestKeys: options that cannot change a result (workers, batch, timeout, secrets and others) are not part of the keys of rows; version,
// env, params and the content of the files of digest are. The name of those files and the value of a secret are not.
func TestKeys(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "weights.bin")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("1")
	key := func(more string) string {
		t.Helper()
		options := fmt.Sprintf("{command: [sh, gen.sh], takes: prompt, gives: video, digest: [%q]%s}", file, more)
		s, err := open(nil, optionsOf(t, options))
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(s.(*stage).opts)
		if err != nil {
			t.Fatal(err)
		}
		spec, err := specOf(optionsOf(t, options))
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(string(text), s.Digest(), spec.Params, spec.In, spec.Out)
	}
	t.Setenv("TOKEN", "s3cret")
	plain := key("")
	for _, more := range []string{", name: mine", ", workers: 3", ", batch: 4, batch_invariant: true", ", timeout: 1h",
		", secrets: [TOKEN]", ", env: {TOKEN: x}, secrets: [TOKEN]", ", heartbeat: 5s", ", memory: 2GB", ", scratch: /tmp",
		`, version: "1"`, ", params: [prompt, negative_prompt, seed, height, width, num_frames, fps, num_inference_steps, guidance_scale]"} {
		if got := key(more); got != plain {
			t.Errorf("%s is part of the key:\n%s\n%s", more, got, plain)
		}
	}
	seen := map[string]string{plain: ""}
	for _, more := range []string{", version: 2", ", env: {A: b}", ", env: {A: c}", ", params: [prompt, seed]"} {
		got := key(more)
		if other, twice := seen[got]; twice {
			t.Errorf("%q gives the key of %q", more, other)
		}
		seen[got] = more
	}
	write("2")
	if key("") == plain {
		t.Error("the content of digest is not part of the key")
	}
	if strings.Contains(key(", secrets: [TOKEN]"), "s3cret") {
		t.Error("a secret is in the key")
	}
	moved := filepath.Join(t.TempDir(), "weights.bin")
	write("1")
	if err := os.Rename(file, moved); err != nil {
		t.Fatal(err)
	}
	file = moved
	if key("") != plain {
		t.Error("the place of the files is part of the key")
	}
}

// TestSecrets: a secret that a program prints is replaced by *** in the error of the row and in the log file.
func TestSecrets(t *testing.T) {
	t.Setenv("TOKEN", "s3cret")
	log := filepath.Join(t.TempDir(), "log")
	s, err := open(nil, optionsOf(t, fmt.Sprintf("{command: [sh, -c, 'echo \"  my token is $TOKEN\"; exit 1'], takes: "+
		"prompt, gives: video, "+
		"secrets: [TOKEN], name: teller, log: %q}", log)))
	if err != nil {
		t.Fatal(err)
	}
	err = s.Run(t.Context(), onCPU(t), []*stages.Element{element("x")})
	if err == nil || !strings.Contains(err.Error(), "my token is ***") || strings.Contains(err.Error(), "s3cret") {
		t.Error(err)
	}
	s.Capabilities().Close()
	if text, err := os.ReadFile(log); err != nil ||
		!regexp.MustCompile(`^teller 0: \[.{19}\] started: sh -c .*\nteller 0:   my token is \*\*\*\nteller 0: \[.{19}\] start: it ended`).Match(text) {
		t.Errorf("the log says %q, %v", text, err)
	}
}

// TestSweep: a new process removes the scratch directory of a killed process, but not directories in use.
func TestSweep(t *testing.T) {
	parent := t.TempDir()
	mine, err := newScratch(parent)
	if err != nil {
		t.Fatal(err)
	}
	dead := filepath.Join(parent, scratchPrefix+"dead")
	young := filepath.Join(parent, scratchPrefix+"young")
	for _, dir := range []string{dead, young} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	old := time.Now().Add(-time.Hour)
	for _, dir := range []string{dead, mine.dir} {
		if err := os.Chtimes(dir, old, old); err != nil {
			t.Fatal(err)
		}
	}
	sweep(parent)
	for dir, there := range map[string]bool{dead: false, young: true, mine.dir: true} {
		if _, err := os.Stat(dir); (err == nil) != there {
			t.Errorf("%s: %v", filepath.Base(dir), err)
		}
	}
	if err := mine.remove(); err != nil {
		t.Error(err)
	}
}

// TestLastLine: the last line of a Python traceback gets the position in the user's own code.
func TestLastLine(t *testing.T) {
	var l lastLine
	for line := range strings.Lines(`Traceback (most recent call last):
  File "/home/me/gen.py", line 7, in <module>
    draw()
  File "/usr/lib/python3.11/random.py", line 3, in draw
    ~~~^^^
ValueError: no
`) {
		l.set(strings.TrimRight(line, "\n"))
	}
	if l.get() != "ValueError: no (gen.py, line 7)" {
		t.Errorf("got %q, want the error with gen.py, line 7", l.get())
	}
	if l.set("  done"); l.get() != "done" {
		t.Error(l.get())
	}
}

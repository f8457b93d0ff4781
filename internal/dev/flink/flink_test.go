package flink

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"latentbeam/stages/exec/exectest"
)

// job is a job file and its outputs.
type job struct {
	f    *flink
	dir  string   // directory of the job and its outputs
	yaml string   // path of the job
	log  string   // directory of the notes that workers write
	sets []string // values of the flag --set
	more []string // other flags
}

// probing returns a job of n rows with the stage probe of ./program. The lines more are the prompts of further rows: by its prompt, a row asks
// the stage to fail ("refuse"), to end the bundle or the job with an error ("trouble", "fatal") or to kill the worker ("kill").
func probing(t testing.TB, f *flink, n int, more ...string) job {
	t.Helper()
	j := job{f: f, dir: t.TempDir()}
	j.log, j.yaml = filepath.Join(j.dir, "log"), filepath.Join(j.dir, "job.yaml")
	rows := strings.Builder{}
	rows.WriteString("prompt,seed\n")
	for i := range n {
		fmt.Fprintf(&rows, "a row,%d\n", i)
	}
	for _, line := range more {
		rows.WriteString(line + ",1\n")
	}
	write(t, filepath.Join(j.dir, "rows.csv"), rows.String())
	write(t, j.yaml, "version: 1\nmodel: none\ninput: {prompts: rows.csv}\nstages: [{probe: {}}]\n"+
		"output: {path: out, write: [latents]}\non_error: {stop_after: 100%}\n")
	if err := os.Mkdir(j.log, 0o755); err != nil {
		t.Fatal(err)
	}
	return j
}

// write writes a file.
func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// on returns a run of the job on the cluster, with a number of subtasks for each of two slots.
func (j job) on(waves int, sets ...string) []string {
	return append([]string{fmt.Sprintf("runner={name: flink, endpoint: \"localhost:%d\", parallelism: 2, waves: %d, "+
		"options: {pipeline_resources_detector_factory_class: NoJars$Factory}}", j.f.jobs, waves)}, sets...)
}

// start starts a run whose output is out.
func (j job) start(t *testing.T, out string, sets ...string) *run {
	t.Helper()
	return j.startAt(t, filepath.Join(j.dir, out), sets...)
}

// startAt starts a run whose output is at a path or an address.
func (j job) startAt(t *testing.T, out string, sets ...string) *run {
	t.Helper()
	args := append([]string{"run", j.yaml, "--output", out}, j.more...)
	for _, s := range append(slices.Clone(j.sets), sets...) {
		args = append(args, "--set", s)
	}
	r := &run{t: t, Cmd: exec.Command(j.f.program, args...), out: out, began: time.Now()}
	r.Cmd.Dir, r.Cmd.Stdout, r.Cmd.Stderr = j.dir, &r.text, &r.text
	if err := r.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return r
}

// run is a process of the program.
type run struct {
	t *testing.T
	*exec.Cmd
	out   string
	text  bytes.Buffer
	began time.Time
}

// ends waits for the run and checks its exit code.
func (r *run) ends(code int) string {
	r.t.Helper()
	err := r.Wait()
	if r.ProcessState.ExitCode() != code {
		r.t.Fatalf("exit %d, want %d (%v):\n%s", r.ProcessState.ExitCode(), code, err, r.text.String())
	}
	r.t.Logf("%.1f s: %s", time.Since(r.began).Seconds(), strings.ReplaceAll(last(r.text.String(), 400), "\n", " | "))
	return r.text.String()
}

// last returns the last n bytes of s.
func last(s string, n int) string { return s[max(0, len(s)-n):] }

// digests returns the digests of everything that equal jobs must reproduce byte for byte.
func digests(t *testing.T, out string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(out, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(out, path)
		if err != nil {
			return err
		}
		switch folder, _, _ := strings.Cut(name, "/"); folder {
		case "videos", "posters", "tables":
			data, err := os.ReadFile(path)
			all[name] = fmt.Sprintf("%x", sha256.Sum256(data))
			if strings.Contains(name, ".tmp-") {
				t.Errorf("a temporary file is left: %s", name)
			}
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// same checks that two outputs of a job have the same files.
func same(t *testing.T, want, got string) {
	t.Helper()
	w, g := digests(t, want), digests(t, got)
	if len(w) == 0 || !maps.Equal(w, g) {
		var wrong []string
		for name := range w {
			if w[name] != g[name] {
				wrong = append(wrong, name)
			}
		}
		slices.Sort(wrong)
		t.Errorf("got %d files, want %d; missing or different are %v", len(g), len(w), wrong[:min(len(wrong), 10)])
		return
	}
	t.Logf("%d files are the same", len(w))
}

// note is a line that the stage probe writes about a batch.
type note struct {
	PID        int
	Host       string  // tm1 or tm2
	Begin, End float64 // seconds
	Rows       int
}

// notes reads the notes of the workers, in order.
func (j job) notes(t *testing.T) (all []note) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(j.log, "*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			var n note
			if err := json.Unmarshal(lines.Bytes(), &n); err == nil {
				all = append(all, n)
			}
		}
	}
	slices.SortFunc(all, func(a, b note) int { return int(1e6 * (a.Begin - b.Begin)) })
	return all
}

// processes returns how many rows each worker has noted, by host and process id.
func processes(notes []note) map[string]map[int]int {
	out := map[string]map[int]int{}
	for _, n := range notes {
		if out[n.Host] == nil {
			out[n.Host] = map[int]int{}
		}
		out[n.Host][n.PID] += n.Rows
	}
	return out
}

// soon waits until a condition is true, at most two minutes.
func soon(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !is(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within two minutes: %s", what)
		}
	}
}

// logging returns settings of the stage probe: write notes, and sleep for a time in each batch.
func (j job) logging(ms int) []string {
	return []string{"stages.probe.log=" + j.log, fmt.Sprintf("stages.probe.sleep_ms=%d", ms)}
}

// shapes returns the job with the built-in model.
func shapes(t *testing.T, f *flink) job {
	t.Helper()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	j := job{f: f, dir: t.TempDir(), yaml: filepath.Join(root, "testdata/prompts/shapes.yaml"),
		sets: []string{"defaults.num_inference_steps=4"}}
	if err := os.Symlink(filepath.Join(root, "testdata"), filepath.Join(j.dir, "testdata")); err != nil {
		t.Fatal(err)
	}
	return j
}

// TestShapes: the cluster makes the videos of the built-in model with the bytes of the local runner.
func TestShapes(t *testing.T) {
	j := shapes(t, cluster(t))
	local := j.start(t, "local")
	local.ends(0)
	spread := j.start(t, "flink", j.on(3)...)
	spread.ends(0)
	same(t, local.out, spread.out)
}

// TestThousandRows runs 1,000 rows through the stage probe, one of them twice, and two that it refuses. The output equals the one of the local
// runner, and each host has one worker process.
func TestThousandRows(t *testing.T) {
	f := cluster(t)
	j := probing(t, f, 1000, "refuse", "a row", "refuse")
	j.start(t, "local", "runner=local").ends(1)
	r := j.start(t, "flink", j.on(4, j.logging(0)...)...)
	r.ends(1)
	same(t, filepath.Join(j.dir, "local"), r.out)
	hosts := processes(j.notes(t))
	for host, pids := range hosts {
		if len(pids) != 1 {
			t.Errorf("host %s had %d processes, want 1", host, len(pids))
		}
	}
	if len(hosts) != 2 {
		t.Errorf("rows were computed on %v, want two hosts", hosts)
	}
	again := j.start(t, "flink", j.on(4)...).ends(1)
	if !strings.Contains(again, "nothing") {
		t.Logf("a second run says: %s", again)
	}
}

// TestKilledWorker: if a worker is killed, others compute its rows, and no row is done twice.
func TestKilledWorker(t *testing.T) {
	f := cluster(t)
	j := probing(t, f, 200)
	j.start(t, "local", "runner=local").ends(0)
	r := j.start(t, "flink", j.on(4, j.logging(20)...)...)
	soon(t, "rows are computed", func() bool { return len(j.notes(t)) > 0 })
	pids := f.workers(t, "")
	if len(pids) == 0 {
		t.Fatal("there are no workers")
	}
	if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	r.ends(0)
	same(t, filepath.Join(j.dir, "local"), r.out)
}

// TestKilledWorkerOfPrograms kills a worker whose stage is a program. The rows equal those of the local runner, each is there once, and
// programs and their files do not outlive the workers.
func TestKilledWorkerOfPrograms(t *testing.T) {
	f := cluster(t)
	const rows = 120
	scratch := t.TempDir()
	j := job{f: f, dir: t.TempDir()}
	j.yaml = filepath.Join(j.dir, "job.yaml")
	table := "id,prompt\n"
	for i := range rows {
		how := "nap"
		if i%40 == 39 {
			how = "error"
		}
		table += fmt.Sprintf("%d,row %d do:%s\n", i, i, how)
	}
	write(t, filepath.Join(j.dir, "rows.csv"), table)
	write(t, j.yaml, "version: 1\nmodel: none\ninput: {prompts: rows.csv}\ndefaults: {height: 16, width: 16, num_frames: 1}\n"+
		"stages: [{exec: "+exectest.Options("prompt", "video", t.TempDir(), fmt.Sprintf(", scratch: %q", scratch))+"}]\n"+
		"output: {path: out, write: [video]}\non_error: {stop_after: 100%}\n")
	j.start(t, "local", "runner=local").ends(1)
	r := j.start(t, "flink", j.on(4)...)
	soon(t, "a video is there", func() bool {
		found, _ := filepath.Glob(filepath.Join(r.out, "videos/*"))
		return len(found) > 0
	})
	pids := f.workers(t, "")
	if len(pids) == 0 {
		t.Fatal("there are no workers")
	}
	if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	r.ends(1)
	same(t, filepath.Join(j.dir, "local"), r.out)
	videos := 0
	for name := range digests(t, r.out) {
		if strings.HasPrefix(name, "videos/") {
			videos++
		}
	}
	if videos != rows-rows/40 {
		t.Errorf("got %d videos, want %d", videos, rows-rows/40)
	}
	soon(t, "all programs have ended", func() bool { return len(programs(t, scratch)) == 0 })
}

// programs returns the processes that work in a scratch directory.
func programs(t *testing.T, scratch string) (found []string) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range all {
		if env, _ := os.ReadFile(name); strings.Contains(string(env), "LATENTBEAM_SCRATCH="+scratch) {
			found = append(found, name)
		}
	}
	return found
}

// TestTrouble: a bundle that ends with an error is computed again, and the submitter reports it. If nothing else ran on the host, a new
// process computes it, because the delay of a restart is longer than the cluster keeps an idle worker.
func TestTrouble(t *testing.T) {
	f := full(t)
	j := probing(t, f, 100, "trouble 1")
	j.start(t, "local", "runner=local").ends(0)
	r := j.start(t, "flink", j.on(4, j.logging(5)...)...)
	if text := r.ends(0); !strings.Contains(text, "the row asks for trouble") {
		t.Errorf("the output of the submitter does not have the error:\n%s", text)
	}
	same(t, filepath.Join(j.dir, "local"), r.out)
	t.Logf("processes %v", processes(j.notes(t)))
}

// TestTroubleBeforeTheShuffle: if a bundle before the shuffle does not find the rows of the job, the cluster tries it again. The same
// process computes it if the cluster keeps an idle worker longer than the delay of a restart.
func TestTroubleBeforeTheShuffle(t *testing.T) {
	f := full(t)
	j := probing(t, f, 200)
	j.start(t, "local", "runner=local").ends(0)
	kept := j.on(4, append(j.logging(20), "runner.options.environment_cache_millis=60000")...)
	r := j.start(t, "flink", kept...)
	var found []string
	list := func(pattern string) []string {
		found, _ = filepath.Glob(filepath.Join(r.out, "runs", "*", pattern))
		return found
	}
	soon(t, "the rows are there", func() bool { return len(list("rows.json")) == 1 })
	rows := found[0]
	if err := os.Rename(rows, rows+".away"); err != nil { // before the job is submitted
		t.Fatal(err)
	}
	soon(t, "two bundles have failed", func() bool { return len(list("trouble-*.json")) >= 2 })
	if err := os.Rename(rows+".away", rows); err != nil {
		t.Fatal(err)
	}
	if text := r.ends(0); strings.Count(text, "a worker could not go on") < 2 || !strings.Contains(text, "does not see the output") {
		t.Errorf("the output of the submitter does not have the error:\n%s", text)
	}
	same(t, filepath.Join(j.dir, "local"), r.out)
	if left := list("rows*"); len(left) > 0 {
		t.Errorf("rows are left: %v", left)
	}
	computed, pids := 0, map[int]bool{}
	for _, n := range j.notes(t) {
		computed += n.Rows
		pids[n.PID] = true
	}
	if computed != 200 || len(pids) != 2 {
		t.Errorf("%d rows were computed by the processes %v, want 200 by one of each host", computed, pids)
	}
	for _, name := range list("trouble-*.json") { // trouble-HOST-PID-RANDOM-N.json
		parts := strings.Split(filepath.Base(name), "-")
		if pid, err := strconv.Atoi(parts[max(0, len(parts)-3)]); err != nil || !pids[pid] {
			t.Errorf("%s is not of a process that has computed rows: %v", name, pids)
		}
	}
}

// TestFatal: a fatal error ends the job on the cluster at once, although the cluster would restart it 1,000 times.
func TestFatal(t *testing.T) {
	f := full(t)
	j := probing(t, f, 100, "fatal")
	text := j.start(t, "flink", j.on(4, j.logging(5)...)...).ends(3)
	if !strings.Contains(text, "the row asks for the end") || !strings.Contains(text, "worker on host") {
		t.Errorf("the output does not have the reason:\n%s", text)
	}
	f.idle(t) // before the output is removed
}

// TestDeadlyRow: a row that kills its worker fails after the third death, and all other rows are done.
func TestDeadlyRow(t *testing.T) {
	f := full(t)
	j := probing(t, f, 60, "kill")
	r := j.start(t, "flink", j.on(2, append(j.logging(5), "resources.batch_size=8")...)...)
	text := r.ends(1)
	if !strings.Contains(text, "the process that computes this row dies, each time") {
		t.Errorf("the output does not say why the row failed:\n%s", text)
	}
	deaths, err := filepath.Glob(filepath.Join(r.out, "runs/*/death-*.json"))
	if err != nil || len(deaths) != 3 {
		t.Errorf("%d deaths, %v, want 3", len(deaths), err)
	}
}

// TestKilledTaskManager: if a TaskManager is killed, the other one computes its rows.
func TestKilledTaskManager(t *testing.T) {
	f := full(t)
	j := probing(t, f, 200)
	j.start(t, "local", "runner=local").ends(0)
	r := j.start(t, "flink", j.on(4, j.logging(20)...)...)
	soon(t, "rows are computed on tm2", func() bool { return processes(j.notes(t))["tm2"] != nil })
	f.kill(t, "tm2")
	r.ends(0)
	same(t, filepath.Join(j.dir, "local"), r.out)
	if err := f.start("tm2", f.taskManager("tm2")); err != nil {
		t.Fatal(err)
	}
	if err := f.ready(2); err != nil {
		t.Fatal(err)
	}
}

// TestInterrupt: Ctrl-C ends the job on the cluster, and the next run computes the remaining rows.
func TestInterrupt(t *testing.T) {
	f := full(t)
	j := probing(t, f, 400)
	j.start(t, "local", "runner=local").ends(0)
	sets := j.on(8, append(j.logging(40), "resources.batch_size=4")...)
	r := j.start(t, "flink", sets...)
	soon(t, "rows are computed", func() bool { return len(j.notes(t)) > 4 })
	if err := r.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	asked := time.Now()
	text := r.ends(130)
	t.Logf("the end came %.1f s after Ctrl-C", time.Since(asked).Seconds())
	// On a busy machine, the rows at work may not be done within drain_timeout.
	if !strings.Contains(text, "rows to do") && !strings.Contains(text, "did not finish within drain_timeout") {
		t.Errorf("the output does not say that rows are left:\n%s", text)
	}
	before := len(j.notes(t))
	time.Sleep(5 * time.Second)
	if after := len(j.notes(t)); after != before {
		t.Errorf("%d batches were computed after the end", after-before)
	}
	j.start(t, "flink", sets...).ends(0)
	same(t, filepath.Join(j.dir, "local"), r.out)
}

// TestKilledSubmitter: the job continues without the process that submitted it, and the next run follows it.
func TestKilledSubmitter(t *testing.T) {
	f := full(t)
	j := probing(t, f, 300)
	j.start(t, "local", "runner=local").ends(0)
	sets := j.on(4, append(j.logging(40), "resources.batch_size=4")...)
	r := j.start(t, "flink", sets...)
	soon(t, "rows are computed", func() bool { return len(j.notes(t)) > 4 })
	if err := r.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = r.Wait()
	again := j.start(t, "flink", sets...)
	text := again.ends(0)
	if !strings.Contains(text, "follow") {
		t.Errorf("the second run did not follow the first:\n%s", text)
	}
	same(t, filepath.Join(j.dir, "local"), r.out)
	rows := 0
	for _, n := range j.notes(t) {
		rows += n.Rows
	}
	if rows != 300 {
		t.Errorf("%d rows were computed, want 300, each once", rows)
	}
}

// TestSecondRun: a second run on the same output fails and names the first one, or waits for it with --wait. If the process that
// submitted the first run is dead, --cancel ends its job on the cluster and computes the remaining rows.
func TestSecondRun(t *testing.T) {
	f := full(t)
	const rows = 200
	j := probing(t, f, rows)
	j.start(t, "local", "runner=local").ends(0)
	sets := j.on(4, append(j.logging(40), "resources.batch_size=4")...)
	// computed returns how many rows the workers have noted.
	computed := func() (n int) {
		for _, one := range j.notes(t) {
			n += one.Rows
		}
		return n
	}
	first := j.start(t, "waited", sets...)
	soon(t, "rows are computed", func() bool { return computed() > 16 })
	if text := j.start(t, "waited", sets...).ends(75); !strings.Contains(text, fmt.Sprintf("is in use by pid %d", first.Process.Pid)) {
		t.Errorf("a second run without a flag prints %s", text)
	}
	patient := j
	patient.more = []string{"--wait"}
	second := patient.start(t, "waited", sets...)
	first.ends(0)
	if text := second.ends(0); !strings.Contains(text, "waiting: ") || !strings.Contains(text, "0 to do") {
		t.Errorf("a second run with --wait prints %s", text)
	}
	if n := computed(); n != rows {
		t.Errorf("%d rows were computed, want %d, each once", n, rows)
	}
	same(t, filepath.Join(j.dir, "local"), first.out)

	orphan := j.start(t, "cancelled", sets...)
	soon(t, "rows are computed again", func() bool { return computed() > rows+16 })
	if err := orphan.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = orphan.Wait()
	before := computed()
	impatient := j
	impatient.more = []string{"--cancel"}
	text := impatient.start(t, "cancelled", sets...).ends(0)
	if !strings.Contains(text, "a job of an earlier run is cancelled") || strings.Contains(text, " 0 to do") {
		t.Errorf("a run with --cancel prints %s", text)
	}
	t.Logf("%d rows were computed before --cancel and %d after it. It prints: %s", before-rows, computed()-before, text)
	same(t, filepath.Join(j.dir, "local"), orphan.out)
	f.idle(t)
}

// TestShuffleFillsBatches: the shuffle groups rows of five shapes into batches that are full to at least 0.85 on average. In the order of the
// table they would be full to 0.80.
func TestShuffleFillsBatches(t *testing.T) {
	f := full(t)
	const rows, size = 480, 8
	j := probing(t, f, 0)
	table := "prompt,seed,width\n"
	for i := range rows {
		table += fmt.Sprintf("a row,%d,%d\n", i, 16*(1+i*i%11%5))
	}
	write(t, filepath.Join(j.dir, "rows.csv"), table)
	r := j.start(t, "flink", j.on(4, append(j.logging(0), fmt.Sprintf("resources.batch_size=%d", size))...)...)
	r.ends(0)
	batches := len(j.notes(t))
	fill := float64(rows) / float64(size*batches)
	t.Logf("%d batches of %d rows at most, full to %.2f", batches, size, fill)
	if fill < 0.85 {
		t.Errorf("%d batches for %d rows are full to %.2f, want at least 0.85", batches, rows, fill)
	}
}

// balance runs rows on two hosts, one of them three times slower. It returns the total time as a multiple of the ideal time, in which
// both hosts end together at their measured speeds. Other work of the machine slows both.
func balance(t *testing.T, waves, ms int) float64 {
	t.Helper()
	const rows = 320
	j := probing(t, full(t), rows)
	j.start(t, "flink", j.on(waves, j.logging(ms)...)...).ends(0)
	type share struct {
		begin, end float64
		rows       int
	}
	on, begin, end := map[string]share{}, math.Inf(1), 0.0
	for _, n := range j.notes(t) {
		s, found := on[n.Host]
		if !found {
			s.begin = n.Begin
		}
		on[n.Host] = share{min(s.begin, n.Begin), max(s.end, n.End), s.rows + n.Rows}
		begin, end = min(begin, n.Begin), max(end, n.End)
	}
	speed := 0.0 // rows per second
	for _, s := range on {
		speed += float64(s.rows) / (s.end - s.begin)
	}
	if len(on) != 2 {
		t.Fatalf("rows were computed on %v, want two hosts", on)
	}
	ratio := (end - begin) * speed / rows
	t.Logf("waves %d: makespan %.2f s, %.3f of the ideal, shares %v", waves, end-begin, ratio, on)
	return ratio
}

// TestBalance: if one of two hosts is three times slower, it gets fewer rows, and both end at about the same time. Equal halves would
// take twice the time. A bundle is a quarter of the slow host's work, so a single late start changes the result. Therefore the best
// of three runs counts.
func TestBalance(t *testing.T) {
	if halves := balance(t, 1, 25); halves < 1.5 {
		t.Errorf("equal halves take %.2f times the ideal, want at least 1.5: the test would see no difference", halves)
	}
	best := math.Inf(1)
	for range 3 {
		if best = min(best, balance(t, 8, 100)); best <= 1.1 {
			return
		}
	}
	t.Errorf("the job takes %.3f times the ideal, want at most 1.1", best)
}

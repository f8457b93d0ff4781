package runners

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/apache/beam/sdks/v2/go/container/tools"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/util/grpcx"
)

// BootArgs finds in a command line what an engine starts a worker with: --id=1-1 --provision_endpoint=localhost:4711.
func BootArgs(args []string) (id, provision string, found bool) {
	for _, arg := range args {
		name, value, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		switch {
		case !strings.HasPrefix(arg, "-"):
		case name == "id":
			id = value
		case name == "provision_endpoint":
			provision = value
		}
	}
	return id, provision, id != "" && provision != ""
}

// Boot makes this process a worker of an engine until the engine ends it.
func Boot(ctx context.Context, id, provision string) error {
	Init()
	ctx = grpcx.WriteWorkerID(ctx, id)
	info, err := tools.ProvisionInfo(ctx, provision)
	if err != nil {
		return fmt.Errorf("worker %s: ask the engine at %s what to do: %w", id, provision, err)
	}
	logging, control := info.GetLoggingEndpoint().GetUrl(), info.GetControlEndpoint().GetUrl()
	if control == "" {
		return errors.New("worker " + id + ": the engine at " + provision + " gives no control endpoint")
	}
	if err := serveEngine(ctx, logging, control, provision); err != nil {
		return fmt.Errorf("worker %s: %w", id, err)
	}
	return nil
}

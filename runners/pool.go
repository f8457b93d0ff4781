package runners

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"

	"github.com/apache/beam/sdks/v2/go/container/tools"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/harness"
	fnpb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/fnexecution_v1"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/util/grpcx"
	"google.golang.org/grpc"
)

// WorkerPool starts workers in this process when an engine asks for them (environment external). Unlike Beam's pool, it
// serves several engines, although two TaskManagers of Flink use the same names for their workers.
type WorkerPool struct {
	fnpb.UnimplementedBeamFnExternalWorkerPoolServer
	listener net.Listener
	server   *grpc.Server
	root     context.Context
	end      context.CancelFunc

	mu      sync.Mutex
	workers map[poolWorker]context.CancelFunc
}

// poolWorker identifies a worker: its name and the control address of its engine.
type poolWorker struct{ id, control string }

// Listen returns a pool that listens at addr. Call Serve to answer requests. Anyone who can reach addr can run jobs in this process.
func Listen(addr string) (*WorkerPool, error) {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	p := &WorkerPool{listener: listener, server: grpc.NewServer(), workers: map[poolWorker]context.CancelFunc{}}
	p.root, p.end = context.WithCancel(context.Background())
	fnpb.RegisterBeamFnExternalWorkerPoolServer(p.server, p)
	return p, nil
}

// Addr returns the address at which the pool listens.
func (p *WorkerPool) Addr() string { return p.listener.Addr().String() }

// Serve answers requests until ctx ends or Close is called. It then stops the workers.
func (p *WorkerPool) Serve(ctx context.Context) error {
	stop := context.AfterFunc(ctx, p.Close)
	defer stop()
	defer p.end()
	return p.server.Serve(p.listener)
}

// Close ends the pool and its workers.
func (p *WorkerPool) Close() {
	p.end()
	p.server.Stop()
}

// StartWorker starts a worker and asks its engine for its capabilities.
func (p *WorkerPool) StartWorker(_ context.Context, r *fnpb.StartWorkerRequest) (*fnpb.StartWorkerResponse, error) {
	w := poolWorker{r.GetWorkerId(), r.GetControlEndpoint().GetUrl()}
	logging := r.GetLoggingEndpoint()
	refuse := func(format string, args ...any) (*fnpb.StartWorkerResponse, error) {
		return &fnpb.StartWorkerResponse{Error: fmt.Sprintf(format, args...)}, nil
	}
	switch {
	case w.id == "" || w.control == "" || logging.GetUrl() == "":
		return refuse("worker %q: an id, a control endpoint and a logging endpoint are needed", w.id)
	case logging.GetAuthentication() != nil || r.GetControlEndpoint().GetAuthentication() != nil:
		return refuse("worker %q: endpoints with authentication are not supported", w.id)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.workers[w] != nil {
		return refuse("worker %q of %s is there already", w.id, w.control)
	}
	ctx, cancel := context.WithCancel(grpcx.WriteWorkerID(p.root, w.id))
	p.workers[w] = cancel
	go func() {
		defer p.remove(w)
		err := serveEngine(ctx, logging.GetUrl(), w.control, r.GetProvisionEndpoint().GetUrl())
		if err != nil && !errors.Is(err, context.Canceled) && ctx.Err() == nil {
			slog.Debug("a worker has ended", "worker", w.id, "error", err)
		}
	}()
	return &fnpb.StartWorkerResponse{}, nil
}

// StopWorker stops the worker of that name. The request does not identify the engine, so if two engines use the name, nothing is
// stopped.
func (p *WorkerPool) StopWorker(_ context.Context, r *fnpb.StopWorkerRequest) (*fnpb.StopWorkerResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var own []poolWorker
	for w := range p.workers {
		if w.id == r.GetWorkerId() {
			own = append(own, w)
		}
	}
	if len(own) != 1 { // the right one of several ends with its engine's connection
		return &fnpb.StopWorkerResponse{}, nil
	}
	p.workers[own[0]]()
	return &fnpb.StopWorkerResponse{}, nil
}

func (p *WorkerPool) remove(w poolWorker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if end := p.workers[w]; end != nil {
		end()
		delete(p.workers, w)
	}
}

// serveEngine runs one worker in this process. It computes for the engine at control until the engine closes the connection.
func serveEngine(ctx context.Context, logging, control, provision string) error {
	var o harness.Options
	if provision != "" {
		info, err := tools.ProvisionInfo(ctx, provision)
		if err != nil {
			return fmt.Errorf("request the capabilities of the engine: %w", err)
		}
		o = harness.Options{StatusEndpoint: info.GetStatusEndpoint().GetUrl(), RunnerCapabilities: info.GetRunnerCapabilities()}
	}
	return harness.MainWithOptions(ctx, logging, control, o)
}

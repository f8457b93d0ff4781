package runners

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	jobpb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/jobmanagement_v1"

	"latentbeam/internal/config"
	"latentbeam/schemas/fault"
)

// service is an engine that runs jobs: a job server of Beam, or Dataflow.
type service interface {
	// running reports whether a job is running. An unknown job has ended.
	running(ctx context.Context, id string) (bool, error)
	// wait waits for the end of a job.
	wait(ctx context.Context, id string) error
	// cancel cancels a job, even if ctx has ended.
	cancel(ctx context.Context, id string) error
	close()
}

// attended waits for the end of a started job. If ctx ends first, attended cancels the job.
func attended(ctx context.Context, l Launch, s service, id string) error {
	if l.Started != nil {
		l.Started(id)
	}
	err := s.wait(ctx, id)
	if ctx.Err() != nil {
		if failed := s.cancel(ctx, id); failed != nil {
			return fmt.Errorf("%w; job %s could not be cancelled and may go on: %w", context.Cause(ctx), id, failed)
		}
	}
	return err
}

// Endpoint returns the address of a runner's engine. Submitted needs it to find a job again.
func Endpoint(r config.Runner) string {
	switch {
	case r.Name == "dataflow":
		return dataflowEndpoint(r)
	case r.Endpoint == "":
		return defaultEndpoint
	}
	return r.Endpoint
}

// Submitted identifies a job that some process has submitted to an engine.
type Submitted struct {
	Runner   string // name of the runner
	Endpoint string // result of Endpoint
	ID       string
}

// dial connects to the engine.
func (s Submitted) dial() (service, error) {
	if s.Runner == "dataflow" {
		return dialDataflow(s.Endpoint)
	}
	return dial(cmp.Or(s.Endpoint, defaultEndpoint)) // runs of earlier releases recorded none
}

// Running reports whether the job is running. A job that the engine no longer knows has ended.
func (s Submitted) Running(ctx context.Context) (bool, error) {
	c, err := s.dial()
	if err != nil {
		return false, err
	}
	defer c.close()
	return c.running(ctx, s.ID)
}

// Follow waits for the end of the job. If ctx ends first, Follow cancels the job.
func (s Submitted) Follow(ctx context.Context) error {
	c, err := s.dial()
	if err != nil {
		return err
	}
	defer c.close()
	err = c.wait(ctx, s.ID)
	if ctx.Err() != nil {
		_ = c.cancel(ctx, s.ID) // this process is ending anyway
	}
	return err
}

// Cancel cancels the job and waits for its end.
func (s Submitted) Cancel(ctx context.Context) error {
	c, err := s.dial()
	if err != nil {
		return err
	}
	defer c.close()
	if err := c.cancel(ctx, s.ID); err != nil {
		return err
	}
	for {
		running, err := c.running(ctx, s.ID)
		if err != nil || !running {
			return err
		}
		select {
		case <-time.After(cancelPause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// cancelPause is the interval of polling a cancelled job.
const cancelPause = 500 * time.Millisecond

// CheckServer checks that a job server answers at the runner's endpoint.
func CheckServer(ctx context.Context, r config.Runner) error {
	c, err := dial(Endpoint(r))
	if err != nil {
		return err
	}
	defer c.close()
	return c.checkServer(ctx)
}

// clusterTime bounds CheckCluster. Flink's client retries a silent JobManager for a minute.
const clusterTime = 2 * time.Minute

// CheckCluster checks that the cluster of a job server accepts a job. A job server does not report the address of its cluster, so
// CheckCluster submits an empty job, which needs no worker.
func CheckCluster(ctx context.Context, r config.Runner) error {
	ctx, cancel := context.WithTimeoutCause(ctx, clusterTime, fault.TryAgain(fmt.Errorf(
		"the cluster behind the job server at %s has not accepted an empty job within %v", Endpoint(r), clusterTime)))
	defer cancel()
	c, err := dial(Endpoint(r))
	if err != nil {
		return err
	}
	defer c.close()
	Init()
	p, s := beam.NewPipelineWithRoot()
	beam.Impulse(s)
	environment, end, err := environmentOf(ctx, config.Runner{})
	if err != nil {
		return err
	}
	defer end()
	empty, err := model(p, environment)
	if err != nil {
		return err
	}
	// Flink's job server does not wait for the end of a detached job.
	l := Launch{Job: "latentbeam-doctor", Config: config.Runner{Options: config.Values{"attached_mode": false}}}
	id, err := c.submit(ctx, l.Job, empty, optionsOf(l, nil))
	if err != nil {
		return err
	}
	return c.accepted(ctx, id)
}

// accepted waits until the cluster has accepted or finished a job.
func (c *client) accepted(ctx context.Context, id string) error {
	stream, err := c.jobs.GetMessageStream(ctx, &jobpb.JobMessagesRequest{JobId: id})
	why := failure{server: c.endpoint}
	for running := false; err == nil; {
		var m *jobpb.JobMessagesResponse
		if m, err = stream.Recv(); err != nil {
			break
		}
		if text := m.GetMessageResponse(); text != nil {
			why.add(text)
		}
		said := m.GetStateResponse()
		if said == nil {
			continue
		}
		// Beam's job servers report RUNNING when they start a job, and RUNNING or nothing definite when the cluster has accepted a detached one.
		switch s := said.GetState(); {
		case terminal(s):
			return why.err(s)
		case running:
			return nil
		default:
			running = s == jobpb.JobState_RUNNING
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fault.TryAgain(fmt.Errorf("the job server at %s did not say whether its cluster has the job: %w", c.endpoint, err))
}

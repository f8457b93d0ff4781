package runners

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"latentbeam/internal/config"
)

// service is an engine that has jobs: a job server of Beam, or Dataflow.
type service interface {
	// running reports whether a job is at work. A job that is not known has ended.
	running(ctx context.Context, id string) (bool, error)
	// wait follows a job to its end.
	wait(ctx context.Context, id string) error
	// cancel ends a job, whatever becomes of ctx.
	cancel(ctx context.Context, id string) error
	close()
}

// attended waits for the end of a job that was started. Where ctx ends first the job is cancelled.
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

// Endpoint says where the engine of a runner is: what Submitted needs to find its jobs again.
func Endpoint(r config.Runner) string {
	switch {
	case r.Name == "dataflow":
		return dataflowEndpoint(r)
	case r.Endpoint == "":
		return defaultEndpoint
	}
	return r.Endpoint
}

// Submitted is a job of an engine that some process has submitted.
type Submitted struct {
	Runner   string // its name
	Endpoint string // as the function Endpoint says it
	ID       string
}

// dial connects to the engine.
func (s Submitted) dial() (service, error) {
	if s.Runner == "dataflow" {
		return dialDataflow(s.Endpoint)
	}
	return dial(cmp.Or(s.Endpoint, defaultEndpoint)) // runs of an earlier release have none
}

// Running reports whether the job is at work. An engine that does not know it any more has ended it.
func (s Submitted) Running(ctx context.Context) (bool, error) {
	c, err := s.dial()
	if err != nil {
		return false, err
	}
	defer c.close()
	return c.running(ctx, s.ID)
}

// Follow waits for the end of the job. The end of ctx ends the job at the engine.
func (s Submitted) Follow(ctx context.Context) error {
	c, err := s.dial()
	if err != nil {
		return err
	}
	defer c.close()
	err = c.wait(ctx, s.ID)
	if ctx.Err() != nil {
		_ = c.cancel(ctx, s.ID) // this process ends in any case
	}
	return err
}

// Cancel ends the job and waits until it is over.
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

// cancelPause is the time between two looks at a job that was cancelled.
const cancelPause = 500 * time.Millisecond

// CheckServer asks whether a job server answers at the endpoint of a runner.
func CheckServer(ctx context.Context, r config.Runner) error {
	c, err := dial(Endpoint(r))
	if err != nil {
		return err
	}
	defer c.close()
	return c.checkServer(ctx)
}

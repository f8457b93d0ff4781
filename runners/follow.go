package runners

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"latentbeam/internal/config"
)

// Submitted is a job of an engine that some process has submitted.
type Submitted struct {
	Endpoint string // of the job server; "": where Beam's listen
	ID       string
}

// dial connects to the job server.
func (s Submitted) dial() (*client, error) {
	if s.Endpoint == "" {
		s.Endpoint = defaultEndpoint
	}
	return dial(s.Endpoint)
}

// Running reports whether the job is at work. An engine that does not know it any more has ended it.
func (s Submitted) Running(ctx context.Context) (bool, error) {
	c, err := s.dial()
	if err != nil {
		return false, err
	}
	defer c.close()
	state, err := c.state(ctx, s.ID)
	switch status.Code(err) {
	case codes.NotFound, codes.InvalidArgument, codes.Unknown, codes.Internal: // job servers have no agreement on this
		return false, nil
	}
	return err == nil && !terminal(state), err
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
		return c.unreachable(err)
	}
	for {
		state, err := c.state(ctx, s.ID)
		if err != nil || terminal(state) {
			return err
		}
		select {
		case <-time.After(c.pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Look asks whether a job server answers at the endpoint of a runner.
func Look(ctx context.Context, r config.Runner) error {
	c, err := Submitted{Endpoint: r.Endpoint}.dial()
	if err != nil {
		return err
	}
	defer c.close()
	return c.look(ctx)
}

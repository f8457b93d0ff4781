// Package hardware opens the devices of a job: devices of this host, of other hosts, or of a machine for which the job is
// only planned.
package hardware

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"latentbeam/internal/config"
	"latentbeam/internal/devices"
	"latentbeam/pipelines/jobfile"

	"latentbeam/internal/cluster"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// dialTime limits how long workers on other hosts may take to open a job.
const dialTime = 10 * time.Minute

// dial connects to the workers of resources.hosts and combines their devices with the local ones; nil: no hosts are given.
func dial(cfg *config.Config, start jobfile.Start, steps []stages.Step, local devices.Pool) (*devices.Fleet, error) {
	r := cfg.Resources
	if len(r.Hosts) == 0 {
		return nil, nil
	}
	token, err := cluster.ReadToken(r.TokenFile)
	if err != nil {
		return nil, cfg.Errorf("resources.token_file", "%v", err)
	}
	job, err := json.Marshal(start)
	if err != nil {
		return nil, err
	}
	weights := map[string]string{}
	for _, s := range steps {
		weights[s.Name] = s.Digest()
	}
	ctx, cancel := context.WithTimeout(context.Background(), dialTime)
	defer cancel()
	f, err := devices.Dial(ctx, local, token, r.Hosts, devices.FleetJob{Start: job, Weights: weights, Link: r.NCCL != "off",
		Given: r.Memory > 0})
	if err != nil {
		return nil, dialError(cfg, err)
	}
	return f, nil
}

// dialError returns the error for a worker that cannot be used. If the worker only did not answer, another run may succeed.
func dialError(cfg *config.Config, err error) error {
	wrong := cfg.Errorf("resources.hosts", "%v", err)
	if fault.ClassOf(err) != fault.ClassRetry || errors.Is(err, cluster.ErrToken) {
		return wrong
	}
	return fault.TryAgain(wrong.WithFix("start it on that host (latentbeam worker --listen ADDR --token-file F) " +
		"and run again"))
}

// CheckWidths returns an error if a stage needs more devices for one batch than the job has.
func CheckWidths(cfg *config.Config, steps []stages.Step, defaults *schemas.PromptRow, devices int) error {
	for i, s := range steps {
		spread := s.Capabilities().Spread
		if spread == nil {
			continue
		}
		if n := spread.Width(defaults); n > devices {
			return widthError(cfg, i, s, n, devices)
		}
	}
	return nil
}

// widthError returns the error for step i, which needs n devices for a batch, at the option that sets this number.
func widthError(cfg *config.Config, i int, s stages.Step, n, devices int) error {
	path, key, how := fmt.Sprintf("stages.%d", i), "sequence_parallel", ""
	if s.Spec.Program != nil {
		return cfg.Errorf(path+".devices", "%s wants %d workers for a program, the job has %d", s.Name, n, devices).
			WithFix("set resources.workers to a multiple of %d, or devices to less", n)
	}
	if shards := s.Capabilities().Shards(); shards > 1 {
		how = fmt.Sprintf(", %d to hold its weights", shards)
		for _, size := range []string{"pp_size", "tp_size"} {
			if cfg.At(path+"."+size) != cfg.At(path) { // the option is given
				key = size
			}
		}
	}
	return cfg.Errorf(path+"."+key, "%s wants %d workers for a batch%s, the job has %d", s.Name, n, how, devices).
		WithFix("set resources.workers to %d or more, or %s to auto", n, key)
}

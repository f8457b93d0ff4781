// Package hardware opens the devices that a job gets: those of this host, of other hosts, or of a machine that it is only
// planned for.
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

// dialTime is how long the workers of other hosts may take to open a job.
const dialTime = 10 * time.Minute

// dial adds the workers of resources.hosts to those of this process; nil where it names none.
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
		return nil, notMet(cfg, err)
	}
	return f, nil
}

// notMet is the error of an unusable worker, or of a silent one that may answer in the next run.
func notMet(cfg *config.Config, err error) error {
	wrong := cfg.Errorf("resources.hosts", "%v", err)
	if fault.ClassOf(err) != fault.ClassRetry || errors.Is(err, cluster.ErrToken) {
		return wrong
	}
	return fault.TryAgain(wrong.WithFix("start it on that host (latentbeam worker --listen ADDR --token-file F) " +
		"and run again"))
}

// CheckWidths refuses a stage that wants more devices for a batch than there are.
func CheckWidths(cfg *config.Config, steps []stages.Step, defaults *schemas.PromptRow, devices int) error {
	for i, s := range steps {
		spread := s.Capabilities().Spread
		if spread == nil {
			continue
		}
		if n := spread.Width(defaults); n > devices {
			return tooWide(cfg, i, s, n, devices)
		}
	}
	return nil
}

// tooWide is the error of step i, which wants n devices for a batch, at the option that says so.
func tooWide(cfg *config.Config, i int, s stages.Step, n, devices int) error {
	path, key, how := fmt.Sprintf("stages.%d", i), "sequence_parallel", ""
	if s.Spec.Program != nil {
		return cfg.Errorf(path+".devices", "%s wants %d workers for a program, the job has %d", s.Name, n, devices).
			WithFix("set resources.workers to a multiple of %d, or devices to less", n)
	}
	if shards := s.Capabilities().Shards(); shards > 1 {
		how = fmt.Sprintf(", %d to hold its weights", shards)
		for _, size := range []string{"pp_size", "tp_size"} {
			if cfg.At(path+"."+size) != cfg.At(path) { // it is given
				key = size
			}
		}
	}
	return cfg.Errorf(path+"."+key, "%s wants %d workers for a batch%s, the job has %d", s.Name, n, how, devices).
		WithFix("set resources.workers to %d or more, or %s to auto", n, key)
}

package pipelines

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"latentbeam/internal/config"
	"latentbeam/internal/devices"
	"latentbeam/internal/engine"
	"latentbeam/internal/transport"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// dialTime is how long the workers of other hosts may take to open a job.
const dialTime = 10 * time.Minute

// fleet adds the workers of resources.hosts to those of this process. end is called when the job is closed.
func fleet(cfg *config.Config, start Start, steps []engine.Step, local stages.Picker) (
	all stages.Pool, end func(), err error) {
	r := cfg.Resources
	if len(r.Hosts) == 0 {
		return local, func() {}, nil
	}
	token, err := transport.ReadToken(r.TokenFile)
	if err != nil {
		return nil, nil, cfg.Errorf("resources.token_file", "%v", err)
	}
	job, err := json.Marshal(start)
	if err != nil {
		return nil, nil, err
	}
	weights := map[string]string{}
	for _, s := range steps {
		weights[s.Name] = s.Digest()
	}
	ctx, cancel := context.WithTimeout(context.Background(), dialTime)
	defer cancel()
	f, err := devices.Dial(ctx, local, token, r.Hosts, devices.Job{Start: job, Weights: weights, Link: r.NCCL != "off",
		Given: r.Memory > 0})
	if err != nil {
		return nil, nil, notMet(cfg, err)
	}
	return f, f.Close, nil
}

// notMet is the error of a worker that does not answer, which may be there at the next run, or that cannot be used.
func notMet(cfg *config.Config, err error) error {
	wrong := cfg.Errorf("resources.hosts", "%v", err)
	if fault.ClassOf(err) != fault.ClassRetry || errors.Is(err, transport.ErrToken) {
		return wrong
	}
	return fault.TryAgain(wrong.WithFix("start it on that host (latentbeam worker --listen ADDR --token-file F) " +
		"and run again"))
}

// exchanges returns how sets over several hosts have exchanged; nil where links were out of the question.
func (j *Job) exchanges() *transport.Links {
	f, ok := j.engine.Pool.(*devices.Fleet)
	if !ok {
		return nil
	}
	links := f.Exchanges()
	if links.Linked+links.TCP == 0 {
		return nil
	}
	return &links
}

// checkWidths refuses a stage that wants more devices for a batch than there are.
func checkWidths(cfg *config.Config, steps []engine.Step, defaults *schemas.PromptRow, devices int) error {
	for i, s := range steps {
		spreader, ok := s.Stage.(stages.Spreader)
		if !ok {
			continue
		}
		if n := spreader.Width(defaults); n > devices {
			return tooWide(cfg, i, s, n, devices)
		}
	}
	return nil
}

// tooWide is the error of step i, which wants n devices for a batch, at the option that says so.
func tooWide(cfg *config.Config, i int, s engine.Step, n, devices int) error {
	path, key, how := fmt.Sprintf("stages.%d", i), "sequence_parallel", ""
	if sharded, ok := s.Stage.(stages.Sharded); ok && sharded.Shards() > 1 {
		how = fmt.Sprintf(", %d to hold its weights", sharded.Shards())
		for _, size := range []string{"pp_size", "tp_size"} {
			if cfg.At(path+"."+size) != cfg.At(path) { // it is given
				key = size
			}
		}
	}
	return cfg.Errorf(path+"."+key, "%s wants %d workers for a batch%s, the job has %d", s.Name, n, how, devices).
		WithFix("set resources.workers to %d or more, or %s to auto", n, key)
}

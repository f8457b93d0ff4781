package pipelines

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"latentbeam/internal/config"
	"latentbeam/internal/transport"
	"latentbeam/runners/pool"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/transforms"
)

// dialTime is how long the workers of other hosts may take to open a job.
const dialTime = 10 * time.Minute

// fleet adds the workers of resources.hosts to those of this process.
func fleet(cfg *config.Config, start Start, steps []transforms.Step, local *pool.CPU) (stages.Pool, error) {
	r := cfg.Resources
	if len(r.Hosts) == 0 {
		return local, nil
	}
	token, err := transport.ReadToken(r.TokenFile)
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
	f, err := pool.Dial(ctx, local, token, r.Hosts, job, weights)
	if err != nil {
		return nil, cfg.Errorf("resources.hosts", "%v", err)
	}
	return f, nil
}

// checkWidths refuses a stage that wants more devices for a batch than there are.
func checkWidths(cfg *config.Config, steps []transforms.Step, defaults *schemas.PromptRow, devices int) error {
	for i, s := range steps {
		spreader, ok := s.Stage.(stages.Spreader)
		if !ok {
			continue
		}
		if n := spreader.Width(defaults); n > devices {
			return cfg.Errorf(fmt.Sprintf("stages.%d.sequence_parallel", i),
				"%s wants %d workers for a batch, the job has %d", s.Name, n, devices).
				WithFix("set resources.workers to %d or more, or sequence_parallel to auto", n)
		}
	}
	return nil
}

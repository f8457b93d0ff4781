package runners

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/graphx"
	pipepb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/pipeline_v1"
	"google.golang.org/protobuf/proto"

	"latentbeam/internal/config"
	"latentbeam/internal/storage/store"
	"latentbeam/internal/storage/store/open"
)

// dataflowKeys are the YAML keys of the runner dataflow; the first ones are required.
var dataflowKeys = []string{"project", "region", "staging", "image", "machine_type", "accelerator", "max_workers", "binary", "options"}

func dataflowRunner() Runner {
	return Runner{Name: "dataflow", Doc: "Google Cloud Dataflow", Keys: dataflowKeys, Needs: dataflowKeys[:4], Distributed: true,
		Apart: true, check: checkDataflow, request: dataflowRequest, run: runDataflow}
}

// checkDataflow refuses values early that Dataflow would refuse minutes later.
func checkDataflow(cfg *config.Config) error {
	for key, text := range map[string]string{"project": cfg.Runner.Project, "region": cfg.Runner.Region, "image": cfg.Runner.Image} {
		if text == "" || strings.ContainsAny(text, " \t\n?#") || key != "image" && strings.Contains(text, "/") {
			return cfg.Errorf("runner."+key, "runner.%s is %q", key, text).WithFix("write %s: %s", key, examples[key])
		}
	}
	for name, value := range cfg.Runner.Options {
		o, known := dataflowOptions[name]
		switch {
		case !known:
			return cfg.Errorf("runner.options."+name, "runner dataflow knows no option %q", name).
				WithFix("it knows %s", strings.Join(optionNames(), ", "))
		case !o.form.matches(value):
			return cfg.Errorf("runner.options."+name, "runner.options.%s is %v, no %s", name, value, o.form)
		}
	}
	return nil
}

// staged holds the files that a job needs in the bucket before it is created.
type staged struct {
	pipeline []byte // in Beam's portable form
	binary   string // path on this host
	program  string // name of the binary in the staging location
	model    string // name of the pipeline there
	sums     [2]string
}

// stagedOf returns the files that the job of l needs. It sends nothing.
func stagedOf(l Launch) (s staged, p *pipepb.Pipeline, err error) {
	if s.binary = l.Config.Binary; s.binary == "" {
		if s.binary, err = os.Executable(); err != nil {
			return s, nil, err
		}
	}
	program, err := os.ReadFile(s.binary)
	if err != nil {
		return s, nil, fmt.Errorf("read the program for the workers (runner.binary): %w", err)
	}
	s.sums[0] = digest(program)
	s.program = "programs/" + s.sums[0] + "/worker" // Beam's boot program requires the last part of the name
	// Beam's CreateEnvironment lists the worker's capabilities.
	env, err := graphx.CreateEnvironment(context.Background(), graphx.URNEnvDocker, func(context.Context) string { return l.Config.Image })
	if err != nil {
		return s, nil, err
	}
	url, err := proto.Marshal(&pipepb.ArtifactUrlPayload{Url: at(l, s.program), Sha256: s.sums[0]})
	if err != nil {
		return s, nil, err
	}
	env.Dependencies = []*pipepb.ArtifactInformation{{TypeUrn: graphx.URNArtifactURLType, TypePayload: url,
		RoleUrn: graphx.URNArtifactGoWorkerRole}}
	if p, err = model(l.Pipeline, env); err != nil {
		return s, nil, err
	}
	if s.pipeline, err = (proto.MarshalOptions{Deterministic: true}).Marshal(p); err != nil {
		return s, nil, err
	}
	s.sums[1] = digest(s.pipeline)
	s.model = "pipelines/" + s.sums[1]
	return s, p, nil
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// at returns the address of a name in the staging location.
func at(l Launch, name string) string { return strings.TrimSuffix(l.Config.Staging, "/") + "/" + name }

// send uploads files that are missing in the staging location. Names are digests, so a program is uploaded once.
func (s staged) send(ctx context.Context, staging string) error {
	to, err := open.Output(ctx, staging)
	if err != nil {
		return err
	}
	defer to.Close()
	info, err := os.Stat(s.binary)
	if err != nil {
		return err
	}
	put := func(name string, size int64, data func() ([]byte, error)) error {
		there, err := to.Stat(ctx, name)
		if err == nil && there.Size == size || err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		text, err := data()
		if err != nil {
			return err
		}
		return to.Put(ctx, store.Object{Name: name, Data: text})
	}
	if err := put(s.program, info.Size(), func() ([]byte, error) { return os.ReadFile(s.binary) }); err != nil {
		return err
	}
	return put(s.model, int64(len(s.pipeline)), func() ([]byte, error) { return s.pipeline, nil })
}

// dataflowRequest returns the request that would create the job.
func dataflowRequest(l Launch) ([]byte, error) {
	s, p, err := stagedOf(l)
	if err != nil {
		return nil, err
	}
	return json.MarshalIndent(dataflowJob(l, s, p), "", "  ")
}

// runDataflow uploads the program and the pipeline, creates the job and waits for its end. If ctx ends first, it cancels
// the job.
func runDataflow(ctx context.Context, l Launch) error {
	s, p, err := stagedOf(l)
	if err != nil {
		return err
	}
	c, err := dialDataflow(Endpoint(l.Config))
	if err != nil {
		return err
	}
	defer c.close()
	if err := s.send(ctx, l.Config.Staging); err != nil {
		return fmt.Errorf("stage the program and the pipeline (runner.staging): %w", err)
	}
	id, err := c.create(ctx, dataflowJob(l, s, p))
	if err != nil {
		return err
	}
	return attended(ctx, l, c, id)
}

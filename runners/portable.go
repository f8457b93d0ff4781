package runners

import (
	"context"
	"maps"
	"os"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/graphx"
	pipepb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/pipeline_v1"
	"google.golang.org/protobuf/proto"

	"latentbeam/internal/config"
)

// defaultEndpoint is the default address of Beam's job servers.
const defaultEndpoint = "localhost:8099"

// portableKeys are the YAML keys of runners with a job server.
var portableKeys = []string{"endpoint", "parallelism", "waves", "environment", "command", "pool", "options"}

// The environments in which workers run.
const (
	processEnvironment  = "process"
	externalEnvironment = "external"
	loopbackEnvironment = "loopback"
)

func flinkRunner() Runner {
	return Runner{Name: "flink", Doc: "Apache Flink, by Beam's job server", Keys: portableKeys, Distributed: true,
		run: func(ctx context.Context, l Launch) error { return runPortable(ctx, l, flinkOptions(l)) }}
}

func sparkRunner() Runner {
	return Runner{Name: "spark", Doc: "Apache Spark, by Beam's job server", Keys: portableKeys, Distributed: true,
		run: func(ctx context.Context, l Launch) error { return runPortable(ctx, l, nil) }}
}

// cacheMillis is how long Flink retains an idle worker. The pause between waves is shorter. A dead worker must be gone before
// the cluster retries (restart-strategy.fixed-delay.delay).
const cacheMillis = 2000

// flinkOptions returns Flink's options for a job that runs in waves: it has more subtasks than slots, which run one after
// another behind a blocking exchange. A free slot starts the next subtask, so a fast host runs more of them. Without the
// worker cache every wave would start a new process and load the weights again.
func flinkOptions(l Launch) map[string]any {
	return map[string]any{
		"parallelism":              max(1, l.Config.Parallelism, l.Subtasks),
		"execution_mode_for_batch": "BATCH",
		"environment_cache_millis": cacheMillis,
	}
}

// InLoopback reports whether the workers of a job are goroutines of the submitting process.
func InLoopback(r config.Runner) bool { return r.Environment == loopbackEnvironment }

// runPortable runs the job on the job server of its configuration.
func runPortable(ctx context.Context, l Launch, defaults map[string]any) error {
	c, err := dial(Endpoint(l.Config))
	if err != nil {
		return err
	}
	defer c.close()
	return runJob(ctx, l, c, defaults)
}

// runJob submits the pipeline to a job server and waits for its end. If ctx ends first, runJob cancels the job.
func runJob(ctx context.Context, l Launch, c *client, defaults map[string]any) error {
	environment, end, err := environmentOf(ctx, l.Config)
	if err != nil {
		return err
	}
	defer end()
	pipeline, err := model(l.Pipeline, environment)
	if err != nil {
		return err
	}
	id, err := c.submit(ctx, l.Job, pipeline, optionsOf(l, defaults))
	if err != nil {
		return err
	}
	return attended(ctx, l, c, id)
}

// optionsOf returns the options in the form of the job service. Options of the YAML override defaults.
func optionsOf(l Launch, defaults map[string]any) map[string]any {
	all := map[string]any{"experiments": []any{"beam_fn_api"}, "app_name": l.Job, "job_name": l.Job}
	maps.Copy(all, defaults)
	maps.Copy(all, l.Config.Options)
	out := map[string]any{}
	for name, value := range all {
		out["beam:option:"+name+":v1"] = value
	}
	return out
}

// model returns the pipeline in Beam's portable form.
func model(p *beam.Pipeline, environment *pipepb.Environment) (*pipepb.Pipeline, error) {
	edges, _, err := p.Build()
	if err != nil {
		return nil, err
	}
	return graphx.Marshal(edges, &graphx.Options{Environment: environment})
}

// environmentOf returns how the engine starts a worker. end stops the worker service of this process, if there is one.
func environmentOf(ctx context.Context, r config.Runner) (env *pipepb.Environment, end func(), err error) {
	var urn string
	var payload proto.Message
	end = func() {}
	switch r.Environment {
	case "", processEnvironment:
		command := r.Command
		if command == "" {
			if command, err = os.Executable(); err != nil {
				return nil, nil, err
			}
		}
		urn, payload = graphx.URNEnvProcess, &pipepb.ProcessPayload{Command: command}
	case externalEnvironment:
		urn, payload = graphx.URNEnvExternal, externalPayload(r.Pool)
	case loopbackEnvironment:
		pool, err := Listen("localhost:0")
		if err != nil {
			return nil, nil, err
		}
		go pool.Serve(ctx)
		end = pool.Close
		urn, payload = graphx.URNEnvExternal, externalPayload(pool.Addr())
	}
	data, err := proto.Marshal(payload)
	if err != nil {
		return nil, nil, err
	}
	// Beam's CreateEnvironment lists the worker's capabilities. It also asks for a binary to stage; ours is on every host.
	env, err = graphx.CreateEnvironment(ctx, graphx.URNEnvDocker, func(context.Context) string { return "" })
	if err != nil {
		return nil, nil, err
	}
	env.Urn, env.Payload, env.Dependencies = urn, data, nil
	return env, end, nil
}

func externalPayload(addr string) *pipepb.ExternalPayload {
	return &pipepb.ExternalPayload{Endpoint: &pipepb.ApiServiceDescriptor{Url: addr}}
}

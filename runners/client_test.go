package runners

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	jobpb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/jobmanagement_v1"
	pipepb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/pipeline_v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"latentbeam/internal/config"
	"latentbeam/schemas/fault"
)

// fakeServer is a job server that runs nothing.
type fakeServer struct {
	jobpb.UnimplementedJobServiceServer
	jobpb.UnimplementedArtifactStagingServiceServer
	addr string

	mu        sync.Mutex
	prepared  *jobpb.PrepareJobRequest
	staged    string                       // token of the artifact session
	cancelled string                       // id of the job that was cancelled
	answers   []*jobpb.JobMessagesResponse // messages of each stream
	cuts      int                          // number of streams that break before their first message
	state     jobpb.JobState_Enum          // answer of GetState
	refuse    error                        // returned by Prepare
	hang      bool                         // the stream sends nothing until its caller ends
}

// serveFake starts f on a free port and sets its addr.
func serveFake(t *testing.T, f *fakeServer) *fakeServer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.addr = listener.Addr().String()
	s := grpc.NewServer()
	jobpb.RegisterJobServiceServer(s, f)
	jobpb.RegisterArtifactStagingServiceServer(s, f)
	go s.Serve(listener)
	t.Cleanup(s.Stop)
	return f
}

func (f *fakeServer) Prepare(_ context.Context, r *jobpb.PrepareJobRequest) (*jobpb.PrepareJobResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuse != nil {
		return nil, f.refuse
	}
	f.prepared = r
	return &jobpb.PrepareJobResponse{PreparationId: "prep", StagingSessionToken: "token",
		ArtifactStagingEndpoint: &pipepb.ApiServiceDescriptor{Url: f.addr}}, nil
}

// ReverseArtifactRetrievalService asks for the artifacts of an environment that has none.
func (f *fakeServer) ReverseArtifactRetrievalService(s jobpb.ArtifactStagingService_ReverseArtifactRetrievalServiceServer) error {
	first, err := s.Recv()
	if err != nil {
		return err
	}
	if err := s.Send(&jobpb.ArtifactRequestWrapper{Request: &jobpb.ArtifactRequestWrapper_ResolveArtifact{
		ResolveArtifact: &jobpb.ResolveArtifactsRequest{}}}); err != nil {
		return err
	}
	if _, err := s.Recv(); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.staged = first.GetStagingToken()
	return nil
}

func (f *fakeServer) Run(_ context.Context, r *jobpb.RunJobRequest) (*jobpb.RunJobResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.staged != "token" || r.GetRetrievalToken() != "token" || r.GetPreparationId() != "prep" {
		return nil, status.Errorf(codes.FailedPrecondition, "%v came before the artifacts were staged (token %q)", r, f.staged)
	}
	return &jobpb.RunJobResponse{JobId: "job-7"}, nil
}

func (f *fakeServer) GetMessageStream(r *jobpb.JobMessagesRequest, s jobpb.JobService_GetMessageStreamServer) error {
	f.mu.Lock()
	answers, hang := f.answers, f.hang
	if f.cuts > 0 {
		f.cuts--
		f.mu.Unlock()
		return status.Error(codes.Unavailable, "cut")
	}
	f.mu.Unlock()
	for _, a := range answers {
		if err := s.Send(a); err != nil {
			return err
		}
	}
	if hang {
		<-s.Context().Done()
	}
	return nil
}

func (f *fakeServer) GetState(context.Context, *jobpb.GetJobStateRequest) (*jobpb.JobStateEvent, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return &jobpb.JobStateEvent{State: f.state}, nil
}

func (f *fakeServer) Cancel(_ context.Context, r *jobpb.CancelJobRequest) (*jobpb.CancelJobResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cancelled, f.state = r.GetJobId(), jobpb.JobState_CANCELLED
	return &jobpb.CancelJobResponse{State: jobpb.JobState_CANCELLING}, nil
}

// message returns an answer of the stream: an error that the engine logs.
func message(text string) *jobpb.JobMessagesResponse {
	return &jobpb.JobMessagesResponse{Response: &jobpb.JobMessagesResponse_MessageResponse{
		MessageResponse: &jobpb.JobMessage{Importance: jobpb.JobMessage_JOB_MESSAGE_ERROR, MessageText: text}}}
}

// state returns an answer of the stream: the job's new state.
func state(s jobpb.JobState_Enum) *jobpb.JobMessagesResponse {
	return &jobpb.JobMessagesResponse{Response: &jobpb.JobMessagesResponse_StateResponse{StateResponse: &jobpb.JobStateEvent{State: s}}}
}

// submit runs a pipeline with the runner flink on a fake server. It returns the id of the job.
func submit(t *testing.T, f *fakeServer, c config.Runner) (id string, err error) {
	t.Helper()
	c.Endpoint = serveFake(t, f).addr
	r, err := Find("flink")
	if err != nil {
		t.Fatal(err)
	}
	err = r.Run(t.Context(), Launch{Pipeline: counting(false), Job: "a job", Config: c, Subtasks: 12, Started: func(s string) { id = s }})
	return id, err
}

// TestSubmit: a job server receives the pipeline with the engine's options and the environment, and no artifacts.
func TestSubmit(t *testing.T) {
	f := &fakeServer{answers: []*jobpb.JobMessagesResponse{state(jobpb.JobState_RUNNING), message("noise"), state(jobpb.JobState_DONE)}}
	id, err := submit(t, f, config.Runner{Parallelism: 2, Command: "/opt/worker",
		Options: config.Values{"environment_cache_millis": int64(5000), "mine": []any{"x"}}})
	if err != nil || id != "job-7" {
		t.Fatalf("got job %q, %v; want job-7", id, err)
	}
	if f.prepared.GetJobName() != "a job" {
		t.Errorf("the name of the job is %q", f.prepared.GetJobName())
	}
	options := f.prepared.GetPipelineOptions().AsMap()
	for name, want := range map[string]any{"parallelism": 12.0, "execution_mode_for_batch": "BATCH",
		"environment_cache_millis": 5000.0, "job_name": "a job"} {
		if got := options["beam:option:"+name+":v1"]; got != want {
			t.Errorf("option %s is %v, want %v", name, got, want)
		}
	}
	if _, found := options["beam:option:mine:v1"]; !found {
		t.Errorf("an option of the YAML is missing: %v", slices.Collect(maps.Keys(options)))
	}
	for _, e := range f.prepared.GetPipeline().GetComponents().GetEnvironments() {
		var p pipepb.ProcessPayload
		if err := proto.Unmarshal(e.GetPayload(), &p); err != nil || e.GetUrn() != "beam:env:process:v1" ||
			p.GetCommand() != "/opt/worker" ||
			len(e.GetDependencies()) > 0 || len(e.GetCapabilities()) == 0 {
			t.Errorf("environment %v, %v", e, err)
		}
	}
}

// TestFailures: the error and the exit code of a job that fails. They come from the messages of the stream: want is part of the error.
func TestFailures(t *testing.T) {
	failed := state(jobpb.JobState_FAILED)
	for name, c := range map[string]struct {
		answers []*jobpb.JobMessagesResponse
		want    string
		code    int
	}{
		"our own error": {[]*jobpb.JobMessagesResponse{
			message("java.lang.RuntimeException: Error from SDK: " + fault.Bracket(errors.New("worker b: another model")).Error() + "\n\tat x.y"),
			message("later noise"), failed}, "runner flink: worker b: another model", fault.ExitFatal},
		"an error of the engine": {[]*jobpb.JobMessagesResponse{message("java.lang.Foo: no slots\n\tat a.b\n\tat c.d"), failed},
			"runner flink: job failed: java.lang.Foo: no slots", fault.ExitFatal},
		"a reason after the state": {[]*jobpb.JobMessagesResponse{failed, message("no room")}, "runner flink: job failed: no room", fault.ExitFatal},
		"a dead worker":            {[]*jobpb.JobMessagesResponse{message("CANCELLED: client cancelled"), failed}, "restart-strategy", fault.ExitTryAgain},
		"no cluster": {[]*jobpb.JobMessagesResponse{message("x.RetryException: exhausted\nCaused by: x.AnnotatedConnectException: " +
			"Connection refused: jm/10.0.0.1:8081\n\tat a.b"), message("java.net.ConnectException: Connection refused"), failed},
			"does not (Connection refused: jm/10.0.0.1:8081): start the cluster", fault.ExitTryAgain},
		"no reason": {[]*jobpb.JobMessagesResponse{failed}, "the engine gave no reason", fault.ExitFatal},
		"cancelled": {[]*jobpb.JobMessagesResponse{state(jobpb.JobState_CANCELLED)}, "job cancelled", fault.ExitFatal},
	} {
		_, err := submit(t, &fakeServer{answers: c.answers}, config.Runner{})
		if err == nil || !strings.Contains(err.Error(), c.want) || fault.ExitCode(err) != c.code {
			t.Errorf("%s: got %v (exit %d), want %q (exit %d)", name, err, fault.ExitCode(err), c.want, c.code)
		}
	}
	_, err := submit(t, &fakeServer{refuse: status.Error(codes.InvalidArgument, "no such option")}, config.Runner{})
	if err == nil || !strings.Contains(err.Error(), "prepare the job") || !strings.Contains(err.Error(), "no such option") {
		t.Errorf("a job that Prepare refuses: got %v", err)
	}
}

// TestCheckCluster: CheckCluster submits an empty job. The cluster behind the job server has accepted it when the job server sends a
// second state after RUNNING.
func TestCheckCluster(t *testing.T) {
	running, failed := state(jobpb.JobState_RUNNING), state(jobpb.JobState_FAILED)
	for name, c := range map[string]struct {
		answers []*jobpb.JobMessagesResponse
		want    string // "": the cluster has accepted the job
	}{
		"detached": {[]*jobpb.JobMessagesResponse{state(jobpb.JobState_STARTING), running, state(jobpb.JobState_UNSPECIFIED)}, ""},
		"finished": {[]*jobpb.JobMessagesResponse{running, state(jobpb.JobState_DONE)}, ""},
		"no cluster": {[]*jobpb.JobMessagesResponse{running, message("java.net.UnknownHostException: jm"), failed},
			"the cluster that it sends jobs to does not (UnknownHostException: jm)"},
		"no second state": {[]*jobpb.JobMessagesResponse{running, message("noise")}, "did not say whether its cluster has the job"},
	} {
		f := serveFake(t, &fakeServer{answers: c.answers})
		err := CheckCluster(t.Context(), config.Runner{Endpoint: f.addr})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) ||
			fault.ExitCode(err) != fault.ExitTryAgain) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
		if f.prepared.GetPipelineOptions().AsMap()["beam:option:attached_mode:v1"] != false {
			t.Errorf("%s: attached_mode is not false in the options %v", name, f.prepared.GetPipelineOptions())
		}
	}
}

// TestCutStream: a job is followed to its end even if its stream of messages breaks three times. If the server stays silent, the client
// gives up and its error names the job.
func TestCutStream(t *testing.T) {
	f := serveFake(t, &fakeServer{cuts: 3, state: jobpb.JobState_RUNNING,
		answers: []*jobpb.JobMessagesResponse{state(jobpb.JobState_DONE)}})
	c := dialFake(t, f)
	if err := c.wait(t.Context(), "job-7"); err != nil || f.cuts != 0 {
		t.Errorf("got %v with %d of 3 broken streams left, want nil and 0", err, f.cuts)
	}
	f = serveFake(t, &fakeServer{cuts: 1 << 30})
	c = dialFake(t, f)
	c.patience = 50 * time.Millisecond
	c.conn.Close() // as if the server were silent
	if err := c.wait(t.Context(), "job-7"); fault.ExitCode(err) != fault.ExitTryAgain || !strings.Contains(fmt.Sprint(err), "job-7") {
		t.Errorf("a silent server: %v", err)
	}
}

// dialFake returns a client of f that retries without a pause.
func dialFake(t *testing.T, f *fakeServer) *client {
	t.Helper()
	c, err := dial(f.addr)
	if err != nil {
		t.Fatal(err)
	}
	c.pause = time.Millisecond
	t.Cleanup(c.close)
	return c
}

// TestLostListener: the end of a job is noticed even if the stream of messages does not report it.
func TestLostListener(t *testing.T) {
	c := dialFake(t, serveFake(t, &fakeServer{hang: true, state: jobpb.JobState_DONE}))
	if err := c.wait(t.Context(), "job-7"); err != nil {
		t.Error(err)
	}
}

// TestCancel: the end of the context cancels the job at the engine.
func TestCancel(t *testing.T) {
	f := serveFake(t, &fakeServer{hang: true, state: jobpb.JobState_RUNNING})
	r, err := Find("spark")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	err = r.Run(ctx, Launch{Pipeline: counting(false), Config: config.Runner{Endpoint: f.addr}, Started: func(string) { cancel(why) }})
	f.mu.Lock()
	defer f.mu.Unlock()
	if !errors.Is(err, why) || f.cancelled != "job-7" {
		t.Errorf("got %v with job %q cancelled, want %v and job-7", err, f.cancelled, why)
	}
}

// TestNoJobServer: the error for an endpoint without a server names the endpoint and says to try again.
func TestNoJobServer(t *testing.T) {
	c, err := dial("127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := c.checkServer(ctx); fault.ExitCode(err) != fault.ExitTryAgain || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("got %v (exit %d), want 127.0.0.1:1 in it and exit 75", err, fault.ExitCode(err))
	}
}

// TestCheck: keys that a runner does not use are errors with their place in the file (head has 5 lines, so the runner is in line 6), and
// values of its keys are checked. want is part of the error; "": no error.
func TestCheck(t *testing.T) {
	const head = "version: 1\nmodel: tiny\ninput: {prompts: x.txt}\nstages: [encode_text]\noutput: {path: out, write: [embeddings]}\n"
	for text, want := range map[string]string{
		"runner: flink": "",
		"runner: {name: flink, endpoint: \"h:1\", parallelism: 8, waves: 6, command: /x, options: {a: {b: [1]}}}": "",
		"runner: {name: local, waves: 2}":                                                                            `job.yaml:6:30: runner local has no key "waves"`,
		"runner: {name: flink, environment: external}":                                                               "needs runner.pool",
		"runner: {name: flink, environment: docker}":                                                                 `"docker" is not known`,
		"runner: {name: flink, endpoint: h}":                                                                         "write host:port",
		"runner: {name: flink, parallelism: -1}":                                                                     "from 1 to",
		"runner: {name: flink, slots: 1}":                                                                            `unknown key "slots" in runner`,
		"runner: {name: flink, options: [1]}":                                                                        "must be a map",
		"runner: {name: flink, pool: \"h:1\"}":                                                                       "only for environment external",
		"runner: {name: flink, environment: external, pool: h:1}":                                                    "",
		"runner: {name: flink, endpoint: h:1, image: x}":                                                             `job.yaml:6:45: runner flink has no key "image"`,
		"runner: dataflow":                                                                                           "job.yaml:6:9: runner dataflow needs project",
		"runner: {name: dataflow, project: p, region: r, image: i}":                                                  "needs staging",
		"runner: {name: dataflow, project: p, region: r, image: i, staging: \"s3://b/x\"}":                           "write gs://BUCKET/PREFIX",
		"runner: {name: dataflow, project: p, region: r, image: i, staging: \"gs://b/x\"}":                           "",
		"runner: {name: dataflow, project: p/q, region: r, image: i, staging: \"gs://b/x\"}":                         `runner.project is "p/q"`,
		"runner: {name: dataflow, project: p, region: r, image: i, staging: \"gs://b\", waves: 2}":                   `runner dataflow has no key "waves"`,
		"runner: {name: dataflow, project: p, region: r, image: i, staging: \"gs://b\", options: {workers: 2}}":      `job.yaml:6:97: runner dataflow knows no option "workers"`,
		"runner: {name: dataflow, project: p, region: r, image: i, staging: \"gs://b\", options: {disk_size_gb: x}}": "disk_size_gb is x, no whole number",
		"runner: {name: dataflow, project: p, region: r, image: i, staging: \"gs://b\", max_workers: -1}":            "max_workers must be",
	} {
		cfg, err := config.Parse("job.yaml", head+text+"\n", nil)
		if err == nil {
			r, findErr := Find(cfg.Runner.Name)
			if findErr != nil {
				t.Fatal(findErr)
			}
			err = r.Check(cfg)
		}
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestBootArgs: command lines by which Beam's boot program or a worker pool starts a worker are recognised. Others, such as the program's
// own commands, give no worker.
func TestBootArgs(t *testing.T) {
	for line, want := range map[string]Worker{
		"--id=1-1 --provision_endpoint=localhost:4711":                                                   {ID: "1-1", Provision: "localhost:4711"},
		"--provision_endpoint=localhost:4711 -id=1-1":                                                    {ID: "1-1", Provision: "localhost:4711"},
		"--worker=true --id=7 --logging_endpoint=h:1 --control_endpoint=h:2 --semi_persist_dir=/var/opt": {ID: "7", Logging: "h:1", Control: "h:2"},
		"--worker --id=7 --logging_endpoint=h:1 --control_endpoint=h:2 --options={}":                     {ID: "7", Logging: "h:1", Control: "h:2"},
		"run job.yaml":  {},
		"run --id=3":    {},
		"--id 1 --help": {},
		"--worker=false --id=7 --control_endpoint=h:2": {},
		"--id=7 --control_endpoint=h:2":                {},
		"worker --listen=h:2":                          {},
	} {
		w, found := BootArgs(strings.Fields(line))
		if found != (want.ID != "") || found && w != want {
			t.Errorf("%s: got %+v, found %v; want %+v", line, w, found, want)
		}
	}
}

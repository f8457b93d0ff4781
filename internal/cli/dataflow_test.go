//go:build prism

package cli

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/graphx"
	fnpb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/fnexecution_v1"
	jobpb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/jobmanagement_v1"
	pipepb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/pipeline_v1"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners/universal/runnerlib"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"latentbeam/internal/storage/store"
	"latentbeam/internal/storage/store/bucket/buckettest"
	"latentbeam/internal/storage/store/open"
	"latentbeam/internal/storage/store/storetest"
)

// aliveDataflow implements Dataflow's API with prism. It runs the staged pipeline, and the staged program as Beam's boot
// program starts it.
type aliveDataflow struct {
	fnpb.UnimplementedBeamFnExternalWorkerPoolServer
	t    *testing.T
	dir  string
	env  []string // environment of workers
	jobs jobpb.JobServiceClient
	pool string // address of this server as a pool of workers

	mu      sync.Mutex
	program string // path of the staged program
	workers []*exec.Cmd
}

// startDataflow starts the service and returns its address.
func startDataflow(t *testing.T, env []string) (*aliveDataflow, string) {
	t.Helper()
	f := &aliveDataflow{t: t, dir: t.TempDir(), env: env}
	port := freePort(t)
	if _, err := prism.CreateJobServer(context.Background(), prism.Options{Port: port}); err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient(fmt.Sprintf("localhost:%d", port), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	f.jobs = jobpb.NewJobServiceClient(conn)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.pool = listener.Addr().String()
	pool := grpc.NewServer()
	fnpb.RegisterBeamFnExternalWorkerPoolServer(pool, f)
	go pool.Serve(listener)
	server := httptest.NewServer(f)
	t.Cleanup(func() {
		server.Close()
		pool.Stop()
		conn.Close()
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, w := range f.workers {
			_ = w.Process.Kill()
			_ = w.Wait()
		}
	})
	return f, server.URL
}

// freePort returns a port of this host on which no process listens.
func freePort(t *testing.T) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// ServeHTTP implements http.Handler.
func (f *aliveDataflow) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer := map[string]any{}
	var err error
	switch last := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]; {
	case last == "token":
		answer = map[string]any{"access_token": "t", "token_type": "Bearer", "expires_in": 3600}
	case r.Method == "POST":
		body, _ := io.ReadAll(r.Body)
		answer["id"], err = f.create(r.Context(), body)
	case last == "messages":
	default:
		var state *jobpb.JobStateEvent
		if state, err = f.jobs.GetState(r.Context(), &jobpb.GetJobStateRequest{JobId: last}); err == nil {
			answer["currentState"] = "JOB_STATE_" + state.State.String()
		}
	}
	if err != nil {
		f.t.Error(err)
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

// create runs the pipeline that a job names, in workers of the program that it names.
func (f *aliveDataflow) create(ctx context.Context, body []byte) (string, error) {
	var job struct {
		Environment struct {
			SDKPipelineOptions struct{ Options struct{ PipelineURL string } }
			WorkerPools        []struct{ Packages []struct{ Location string } }
		}
	}
	if err := json.Unmarshal(body, &job); err != nil {
		return "", err
	}
	program, err := fromBucket(ctx, job.Environment.WorkerPools[0].Packages[0].Location)
	if err != nil {
		return "", err
	}
	f.mu.Lock()
	f.program = filepath.Join(f.dir, "worker")
	f.mu.Unlock()
	if err := os.WriteFile(f.program, program, 0o755); err != nil {
		return "", err
	}
	data, err := fromBucket(ctx, job.Environment.SDKPipelineOptions.Options.PipelineURL)
	var p pipepb.Pipeline
	if err == nil {
		err = proto.Unmarshal(data, &p)
	}
	if err != nil {
		return "", err
	}
	for _, env := range p.Components.Environments {
		env.Urn, env.Dependencies = graphx.URNEnvExternal, nil
		env.Payload, err = proto.Marshal(&pipepb.ExternalPayload{Endpoint: &pipepb.ApiServiceDescriptor{Url: f.pool}})
		if err != nil {
			return "", err
		}
	}
	prepared, err := f.jobs.Prepare(ctx, &jobpb.PrepareJobRequest{Pipeline: &p, JobName: "staged"})
	if err != nil {
		return "", err
	}
	if at := prepared.GetArtifactStagingEndpoint().GetUrl(); at != "" {
		if _, err := runnerlib.Stage(ctx, prepared.PreparationId, at, "/dev/null", prepared.StagingSessionToken); err != nil {
			return "", err
		}
	}
	run, err := f.jobs.Run(ctx, &jobpb.RunJobRequest{PreparationId: prepared.PreparationId})
	return run.GetJobId(), err
}

// fromBucket reads a staged file.
func fromBucket(ctx context.Context, url string) ([]byte, error) {
	at, name, _ := strings.Cut(strings.TrimPrefix(url, "gs://bucket/"), "/")
	s, err := open.Existing(ctx, "gs://bucket/"+at)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return store.ReadFile(ctx, s, name)
}

// StartWorker starts the staged program as Beam's boot program does, in an empty directory.
func (f *aliveDataflow) StartWorker(_ context.Context, r *fnpb.StartWorkerRequest) (*fnpb.StartWorkerResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	cmd := exec.Command(f.program, "--worker=true", "--id="+r.WorkerId, "--logging_endpoint="+r.LoggingEndpoint.Url,
		"--control_endpoint="+r.ControlEndpoint.Url, "--semi_persist_dir="+f.dir)
	cmd.Dir, cmd.Stderr = f.t.TempDir(), os.Stderr
	cmd.Env = append(append(clean(os.Environ()), asProgram+"=1"), f.env...)
	f.workers = append(f.workers, cmd)
	return &fnpb.StartWorkerResponse{}, cmd.Start()
}

// StopWorker does nothing: a worker ends with its engine.
func (f *aliveDataflow) StopWorker(context.Context, *fnpb.StopWorkerRequest) (*fnpb.StopWorkerResponse, error) {
	return &fnpb.StopWorkerResponse{}, nil
}

// TestDataflow: a job with input and output in a bucket goes to Dataflow, and Dataflow runs the staged program. The
// output has the bytes of the local runner. A dry run prints the job and sends nothing. An input that workers cannot
// read is an error.
func TestDataflow(t *testing.T) {
	gcs := buckettest.GCS(t)
	gcs.Use(t)
	s := newShell(t, "prompts.csv", threePrompts)
	dataflow, address := startDataflow(t, append(gcs.Env, "LATENTBEAM_CACHE="+t.TempDir()))
	s.write("account.json", serviceAccount(t, address+"/token"))
	s.env = append(gcs.Env, "LATENTBEAM_CACHE="+t.TempDir(), "CLOUDSDK_API_ENDPOINT_OVERRIDES_DATAFLOW="+address,
		"GOOGLE_APPLICATION_CREDENTIALS="+filepath.Join(s.dir, "account.json"))
	const runner = `runner: {name: dataflow, project: p, region: r, staging: "gs://bucket/staging", image: "registry/image:1", accelerator: nvidia-l4}`
	s.write("job.yaml", small)
	apart := strings.NewReplacer("prompts.csv", `"gs://bucket/in/prompts.csv"`, "path: out", `path: "gs://bucket/far"`).Replace(small)
	s.write("apart.yaml", apart+runner+"\n")
	s.write("here.yaml", small+runner+"\n")
	s.write("model.yaml", strings.NewReplacer("model: tiny", "model: weights", "path: out",
		`path: "gs://bucket/far"`).Replace(small)+runner+"\n")
	in, err := open.Output(t.Context(), "gs://bucket/in")
	if err == nil {
		err = in.Put(t.Context(), store.Object{Name: "prompts.csv", Data: []byte(threePrompts)})
	}
	if err != nil {
		t.Fatal(err)
	}
	s.says(s.run(2, "run", "here.yaml"), "here.yaml:", "see no directory of this machine")
	if err := os.Mkdir(filepath.Join(s.dir, "weights"), 0o755); err != nil {
		t.Fatal(err)
	}
	s.says(s.run(2, "run", "model.yaml"), "model.yaml:2:", `"weights" is relative to a directory of this machine`)
	s.says(s.run(0, "run", "apart.yaml", "--dry-run"), "as it would be submitted", "worker_accelerator=type:nvidia-l4;count:1",
		`"workerHarnessContainerImage": "registry/image:1"`)
	if dataflow.program != "" {
		t.Error("the dry run has sent a job")
	}
	s.run(0, "run", "job.yaml", "--output", "gs://bucket/near")
	s.says(s.run(0, "run", "apart.yaml"), "3 to do")
	if len(dataflow.workers) == 0 {
		t.Error("no worker was started")
	}
	s.says(s.run(0, "run", "apart.yaml"), "0 to do")
	s.says(s.run(0, "diff", "gs://bucket/near", "gs://bucket/far"), "same")
	same := 0
	near, far := storetest.Outcome(t, open.Existing, "gs://bucket/near"), storetest.Outcome(t, open.Existing, "gs://bucket/far")
	for name, data := range near {
		if far[name] != data {
			t.Errorf("the file %s differs", name)
			continue
		}
		same++
	}
	if same < 7 { // 3 videos, 3 posters, a table
		t.Errorf("only %d files were compared, want 7 or more", same)
	}
}

// serviceAccount writes a file of Google credentials whose tokens come from an address, and returns its path.
func serviceAccount(t *testing.T, address string) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]string{"type": "service_account", "project_id": "p", "client_email": "a@p.example",
		"private_key_id": "1", "private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
		"token_uri": address})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

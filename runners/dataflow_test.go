package runners

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	pipepb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/pipeline_v1"
	df "google.golang.org/api/dataflow/v1b3"
	"google.golang.org/protobuf/proto"

	"latentbeam/internal/config"
	"latentbeam/internal/storage/store"
	"latentbeam/internal/storage/store/bucket/buckettest"
	"latentbeam/internal/storage/store/open"
	"latentbeam/schemas/fault"
)

// fakeDataflow is a fake of Dataflow's API and of Google's token service. It runs no jobs.
type fakeDataflow struct {
	mu        sync.Mutex
	requests  map[string][]byte // bodies of jobs, by their clientRequestId
	posts     int               // number of requests that create a job
	states    []string          // states of the job, one for each poll; the last one stays
	messages  []string          // the job's messages, one a page
	cancelled bool
	status    []int // HTTP status of the next requests, in order; 0: success
	tokens    int   // number of access tokens given
}

// serveDataflow starts the fake and a fake of Cloud Storage, and makes this process use both.
func serveDataflow(t *testing.T, f *fakeDataflow) {
	t.Helper()
	buckettest.GCS(t).Use(t)
	f.requests = map[string][]byte{}
	dataflowPause = 8 * time.Millisecond
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	t.Setenv(dataflowVariable, server.URL+"/")
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	account, err := json.Marshal(map[string]string{"type": "service_account", "project_id": "p", "client_email": "a@p.example",
		"private_key_id": "1", "private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
		"token_uri": server.URL + "/token"})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "account.json")
	if err := os.WriteFile(path, account, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", path)
}

// ServeHTTP implements http.Handler.
func (f *fakeDataflow) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Path == "/token" {
		f.tokens++
		fmt.Fprint(w, `{"access_token":"a-token","token_type":"Bearer","expires_in":3600}`)
		return
	}
	const jobs = "/v1b3/projects/my-project/locations/europe-west4/jobs"
	if r.Header.Get("Authorization") != "Bearer a-token" {
		http.Error(w, `{"error":{"message":"no token"}}`, http.StatusUnauthorized)
		return
	}
	if len(f.status) > 0 {
		status := f.status[0]
		f.status = f.status[1:]
		if status != 0 {
			http.Error(w, `{"error":{"code":`+fmt.Sprint(status)+`,"message":"as the test says"}}`, status)
			return
		}
	}
	switch path := strings.TrimPrefix(r.URL.Path, jobs); r.Method + " " + path {
	case "POST ":
		var job struct{ ClientRequestID string }
		_ = json.Unmarshal(body, &job)
		f.posts++
		f.requests[job.ClientRequestID] = body
		fmt.Fprint(w, `{"id":"job-9","currentState":"JOB_STATE_PENDING"}`)
	case "GET /job-9":
		state := f.states[0]
		if len(f.states) > 1 {
			f.states = f.states[1:]
		}
		fmt.Fprintf(w, `{"id":"job-9","currentState":%q}`, "JOB_STATE_"+state)
	case "GET /job-9/messages":
		page := 0
		_, _ = fmt.Sscan(r.URL.Query().Get("pageToken"), &page)
		answer := map[string]any{"jobMessages": []any{map[string]any{"messageText": f.messages[page]}}}
		if page+1 < len(f.messages) {
			answer["nextPageToken"] = fmt.Sprint(page + 1)
		}
		_ = json.NewEncoder(w).Encode(answer)
	case "PUT /job-9":
		f.cancelled = bytes.Contains(body, []byte(`"JOB_STATE_CANCELLED"`))
		f.states = []string{"CANCELLED"}
		fmt.Fprint(w, `{"id":"job-9"}`)
	default:
		http.Error(w, `{"error":{"code":404,"message":"`+r.Method+" "+r.URL.Path+`"}}`, http.StatusNotFound)
	}
}

// onDataflow returns the runner's part of a job for Dataflow.
func onDataflow(t *testing.T) config.Runner {
	binary := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(binary, []byte("a program"), 0o755); err != nil {
		t.Fatal(err)
	}
	return config.Runner{Name: "dataflow", Project: "my-project", Region: "europe-west4", Staging: "gs://bucket/staging/",
		Image: "registry/image:1", MachineType: "g2-standard-8", Accelerator: "nvidia-l4:2", MaxWorkers: 5, Binary: binary,
		Options: config.Values{"labels": map[string]any{"team": "x"}, "disk_size_gb": int64(200), "no_use_public_ips": true,
			"experiments": []any{"mine"}, "dataflow_service_options": []any{"enable_prime"}, "worker_zone": "europe-west4-a"}}
}

// runOnDataflow runs a small pipeline by the runner dataflow. It calls started with the job's id.
func runOnDataflow(t *testing.T, ctx context.Context, c config.Runner, started func(string)) error {
	r, err := Find("dataflow")
	if err != nil {
		t.Fatal(err)
	}
	return r.Run(ctx, Launch{Pipeline: counting(false), Job: "My Job/1", ID: "abc1", Config: c, Started: started})
}

// stagedText reads a staged file.
func stagedText(t *testing.T, url string) []byte {
	t.Helper()
	at, name, _ := strings.Cut(strings.TrimPrefix(url, "gs://bucket/"), "/")
	s, err := open.Existing(t.Context(), "gs://bucket/"+at)
	if err != nil {
		t.Fatal(err)
	}
	data, err := store.ReadFile(t.Context(), s, name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestDataflow: every field of the sent job is in Dataflow's API. The job has the image, the accelerator, the program and the options, and
// names the staged files.
func TestDataflow(t *testing.T) {
	f := &fakeDataflow{states: []string{"PENDING", "RUNNING", "DONE"}, status: []int{503}}
	serveDataflow(t, f)
	c := onDataflow(t)
	id := ""
	if err := runOnDataflow(t, t.Context(), c, func(s string) { id = s }); err != nil || id != "job-9" || f.posts != 1 || f.tokens != 1 {
		t.Fatalf("got job %q, %d posts, %d tokens, %v; want job-9, 1, 1", id, f.posts, f.tokens, err)
	}
	var job df.Job
	strict := json.NewDecoder(bytes.NewReader(f.requests["abc1"]))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&job); err != nil {
		t.Fatal(err)
	}
	pool := job.Environment.WorkerPools[0]
	for what, ok := range map[string]bool{
		"name":        job.Name == "latentbeam-my-job-1-abc1",
		"type":        job.Type == "JOB_TYPE_BATCH" && job.ProjectId == "my-project" && job.Location == "europe-west4",
		"image":       pool.WorkerHarnessContainerImage == c.Image && pool.SdkHarnessContainerImages[0].ContainerImage == c.Image,
		"one process": !pool.SdkHarnessContainerImages[0].UseSingleCorePerContainer && pool.NumThreadsPerWorker == 1,
		"machine":     pool.MachineType == "g2-standard-8" && pool.AutoscalingSettings.MaxNumWorkers == 5,
		"accelerator": job.Environment.ServiceOptions[0] == "worker_accelerator=type:nvidia-l4;count:2;install-nvidia-driver",
		"options": job.Labels["team"] == "x" && pool.DiskSizeGb == 200 && pool.IpConfiguration == "WORKER_IP_PRIVATE" &&
			job.Environment.ServiceOptions[1] == "enable_prime" && job.Environment.WorkerZone == "europe-west4-a",
		"experiments": strings.Join(job.Environment.Experiments, ",") ==
			"beam_fn_api,use_runner_v2,use_unified_worker,use_portable_job_submission,mine",
		"temporary files": job.Environment.TempStoragePrefix == "gs://bucket/staging/tmp",
	} {
		if !ok {
			t.Errorf("the %s is wrong in the request %s", what, f.requests["abc1"])
		}
	}
	if got := stagedText(t, pool.Packages[0].Location); string(got) != "a program" || pool.Packages[0].Sha256 != digest(got) {
		t.Errorf("the staged program is %q, package %+v", got, pool.Packages[0])
	}
	var options struct {
		Options struct{ PipelineURL, PipelineProtoHash string }
	}
	if err := json.Unmarshal(job.Environment.SdkPipelineOptions, &options); err != nil {
		t.Fatal(err)
	}
	model := stagedText(t, options.Options.PipelineURL)
	var p pipepb.Pipeline
	if err := proto.Unmarshal(model, &p); err != nil || digest(model) != options.Options.PipelineProtoHash || len(p.RootTransformIds) == 0 {
		t.Errorf("the staged pipeline: %v, root transforms %v; its digest is %s, the options say %s", err, p.RootTransformIds, digest(model),
			options.Options.PipelineProtoHash)
	}
	for _, env := range p.GetComponents().GetEnvironments() {
		var url pipepb.ArtifactUrlPayload
		var docker pipepb.DockerPayload
		err := errors.Join(proto.Unmarshal(env.Dependencies[0].TypePayload, &url), proto.Unmarshal(env.Payload, &docker))
		if err != nil || url.Url != pool.Packages[0].Location || docker.ContainerImage != c.Image {
			t.Errorf("environment %v, %v: want program %s and image %s", env, err, pool.Packages[0].Location, c.Image)
		}
	}
	// Request, which a dry run prints, returns the request that Run sent, and sends nothing.
	r, _ := Find("dataflow")
	text, err := r.Request(Launch{Pipeline: counting(false), Job: "My Job/1", ID: "abc1", Config: c})
	var sent bytes.Buffer
	if err == nil {
		err = json.Indent(&sent, f.requests["abc1"], "", "  ")
	}
	if err != nil || string(text) != sent.String() || f.posts != 1 {
		t.Errorf("%v: Request returns\n%s\nRun sent\n%s", err, text, sent.String())
	}
}

// TestDataflowFails: the error and the exit code of a job that Dataflow rejects or that fails. want is part of the error.
func TestDataflowFails(t *testing.T) {
	for name, c := range map[string]struct {
		fake *fakeDataflow
		want string
		code int
	}{
		"our own error": {&fakeDataflow{states: []string{"RUNNING", "FAILED"}, messages: []string{"noise",
			"Error: " + fault.Bracket(errors.New("worker b: another model")).Error(), "later noise"}},
			"runner dataflow: worker b: another model", fault.ExitFatal},
		"an error of the engine": {&fakeDataflow{states: []string{"FAILED"}, messages: []string{"quota of GPUs exceeded"}},
			"job failed: quota of GPUs exceeded", fault.ExitFatal},
		"cancelled":               {&fakeDataflow{states: []string{"CANCELLED"}, messages: []string{""}}, "job cancelled", fault.ExitFatal},
		"forbidden":               {&fakeDataflow{status: []int{403}}, "their rights in runner.project", fault.ExitUsage},
		"refused":                 {&fakeDataflow{status: []int{400}}, "as the test says", fault.ExitUsage},
		"created, then not found": {&fakeDataflow{status: []int{0, 404}}, "job job-9: googleapi", fault.ExitUsage},
	} {
		t.Run(name, func(t *testing.T) {
			serveDataflow(t, c.fake)
			err := runOnDataflow(t, t.Context(), onDataflow(t), nil)
			if err == nil || !strings.Contains(err.Error(), c.want) || fault.ExitCode(err) != c.code {
				t.Errorf("got %v (exit %d), want %q (exit %d)", err, fault.ExitCode(err), c.want, c.code)
			}
		})
	}
}

// TestDataflowCancel: the end of the context cancels the job. Another process can find and cancel the job by its id.
func TestDataflowCancel(t *testing.T) {
	f := &fakeDataflow{states: []string{"RUNNING"}}
	serveDataflow(t, f)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	if err := runOnDataflow(t, ctx, onDataflow(t), func(string) { cancel(why) }); !errors.Is(err, why) || !f.cancelled {
		t.Errorf("Run: got %v, cancelled %v; want %v, true", err, f.cancelled, why)
	}
	f.states, f.cancelled = []string{"RUNNING"}, false
	s := Submitted{Runner: "dataflow", Endpoint: Endpoint(onDataflow(t)), ID: "job-9"}
	if running, err := s.Running(t.Context()); !running || err != nil {
		t.Errorf("got running %v, %v; want true", running, err)
	}
	if err := s.Cancel(t.Context()); err != nil || !f.cancelled {
		t.Errorf("Cancel: got %v, cancelled %v; want nil, true", err, f.cancelled)
	}
	s.ID = "job-unknown"
	if running, err := s.Running(t.Context()); running || err != nil {
		t.Errorf("an unknown job: got running %v, %v; want false, nil", running, err)
	}
}

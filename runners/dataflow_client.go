package runners

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	jobpb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/jobmanagement_v1"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"
	htransport "google.golang.org/api/transport/http"

	"latentbeam/internal/config"
	"latentbeam/schemas/fault"
)

// Access to Dataflow's API. The environment variable dataflowVariable gives the address of another server; Google Cloud's tools read
// it too.
const (
	dataflowAddress  = "https://dataflow.googleapis.com/"
	dataflowVariable = "CLOUDSDK_API_ENDPOINT_OVERRIDES_DATAFLOW"
	dataflowScope    = "https://www.googleapis.com/auth/cloud-platform"
)

// Times of the client.
const (
	dataflowTries = 6           // tries of one request, with growing pauses
	dataflowTime  = time.Minute // limit of one try
)

// dataflowPause is the interval of polling a job's state. Tests shorten it.
var dataflowPause = 10 * time.Second

// dataflow is a client of Dataflow's API.
type dataflow struct {
	http     *http.Client
	jobs     string        // address of the project's jobs in the region
	pause    time.Duration // between two requests for a job's state
	patience time.Duration // how long Dataflow may be silent while the job runs
}

// dataflowEndpoint returns project and region as one text.
func dataflowEndpoint(r config.Runner) string {
	return "projects/" + r.Project + "/locations/" + r.Region
}

// dialDataflow returns a client for the jobs of a project in a region.
func dialDataflow(endpoint string) (*dataflow, error) {
	client, _, err := htransport.NewClient(context.Background(), option.WithScopes(dataflowScope))
	if err != nil {
		return nil, fault.Usage(fmt.Errorf("credentials of Google Cloud: %w; set up application default credentials "+
			"(gcloud auth application-default login)", err))
	}
	base := cmp.Or(os.Getenv(dataflowVariable), dataflowAddress)
	client.Timeout = dataflowTime
	return &dataflow{http: client, jobs: strings.TrimSuffix(base, "/") + "/v1b3/" + endpoint + "/jobs", pause: dataflowPause,
		patience: lostPatience}, nil
}

func (c *dataflow) close() { c.http.CloseIdleConnections() }

// requestOnce makes one request and decodes the answer into out.
func (c *dataflow) requestOnce(ctx context.Context, method, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, method, c.jobs+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	if in == nil {
		request.Body, request.ContentLength = nil, 0
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := c.http.Do(request)
	if err != nil {
		return fault.TryAgain(err)
	}
	defer answer.Body.Close()
	if err := googleapi.CheckResponse(answer); err != nil {
		return refusal(err)
	}
	return json.NewDecoder(io.LimitReader(answer.Body, maxMessage)).Decode(out)
}

// refusal returns an error that explains an unsuccessful answer.
func refusal(err error) error {
	var answer *googleapi.Error
	if !errors.As(err, &answer) {
		return err
	}
	switch {
	case answer.Code == http.StatusTooManyRequests || answer.Code >= http.StatusInternalServerError:
		return fault.TryAgain(err)
	case answer.Code == http.StatusUnauthorized || answer.Code == http.StatusForbidden:
		return fault.Usage(fmt.Errorf("%w; check the credentials of this process, their rights in runner.project, and that "+
			"the Dataflow API is enabled there", err))
	}
	return fault.Usage(err)
}

// request makes a request and retries temporary failures.
func (c *dataflow) request(ctx context.Context, method, path string, in, out any) (err error) {
	for try := range dataflowTries {
		if err = c.requestOnce(ctx, method, path, in, out); err == nil || fault.ExitCode(err) != fault.ExitTryAgain {
			return err
		}
		select {
		case <-time.After(c.pause / 8 << try):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return err
}

// create starts a job. The request carries a unique id, so that repeating it starts no second job.
func (c *dataflow) create(ctx context.Context, job object) (id string, err error) {
	var created struct{ ID string }
	if err := c.request(ctx, http.MethodPost, "", job, &created); err != nil {
		return "", fmt.Errorf("create the job: %w", err)
	}
	if created.ID == "" {
		return "", errors.New("create the job: the answer of Dataflow has no id")
	}
	return created.ID, nil
}

// state returns the state of a job.
func (c *dataflow) state(ctx context.Context, id string) (jobpb.JobState_Enum, error) {
	var job struct{ CurrentState string }
	if err := c.request(ctx, http.MethodGet, "/"+url.PathEscape(id), nil, &job); err != nil {
		return jobpb.JobState_UNSPECIFIED, err
	}
	// Beam uses Dataflow's names of states.
	return jobpb.JobState_Enum(jobpb.JobState_Enum_value[strings.TrimPrefix(job.CurrentState, "JOB_STATE_")]), nil
}

// running reports whether the job is running. An unknown job has ended.
func (c *dataflow) running(ctx context.Context, id string) (bool, error) {
	state, err := c.state(ctx, id)
	var answer *googleapi.Error
	if errors.As(err, &answer) && answer.Code == http.StatusNotFound {
		return false, nil
	}
	return err == nil && !terminal(state), err
}

// wait waits for the end of a job.
func (c *dataflow) wait(ctx context.Context, id string) error {
	for heard, pause := time.Now(), c.pause/16; ; pause = min(2*pause, c.pause) {
		state, err := c.state(ctx, id)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil && terminal(state):
			return c.why(ctx, id).err(state)
		case err == nil:
			heard = time.Now()
		case fault.ExitCode(err) != fault.ExitTryAgain:
			return fmt.Errorf("job %s: %w", id, err)
		case time.Since(heard) > c.patience:
			return fault.TryAgain(fmt.Errorf("dataflow has been silent for %v, job %s may be running: run again later, which "+
				"finds what was done (%w)", c.patience, id, err))
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// maxPages bounds the pages of a job's messages that are read.
const maxPages = 100

// why collects Dataflow's messages about a job that has ended.
func (c *dataflow) why(ctx context.Context, id string) *failure {
	f := &failure{engine: "dataflow"}
	page := ""
	for range maxPages {
		var messages struct {
			JobMessages   []struct{ MessageText string }
			NextPageToken string
		}
		query := url.Values{"minimumImportance": {"JOB_MESSAGE_ERROR"}, "pageToken": {page}}
		if c.request(ctx, http.MethodGet, "/"+url.PathEscape(id)+"/messages?"+query.Encode(), nil, &messages) != nil {
			break // report the state without a reason
		}
		for _, m := range messages.JobMessages {
			f.add(&jobpb.JobMessage{Importance: jobpb.JobMessage_JOB_MESSAGE_ERROR, MessageText: m.MessageText})
		}
		if page = messages.NextPageToken; page == "" {
			break
		}
	}
	return f
}

// cancel cancels a job, even if ctx has ended.
func (c *dataflow) cancel(ctx context.Context, id string) error {
	ctx, end := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
	defer end()
	var job struct{}
	return c.request(ctx, http.MethodPut, "/"+url.PathEscape(id), object{"requestedState": "JOB_STATE_CANCELLED"}, &job)
}

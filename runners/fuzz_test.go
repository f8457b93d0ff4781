package runners

import (
	"bytes"
	"io"
	"net/http"
	"testing"
	"time"

	jobpb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/jobmanagement_v1"
)

// answering is an http.RoundTripper that gives the same answer to every request.
type answering func() []byte

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(a())), Request: r}, nil
}

// FuzzAnswer: whatever an engine answers about a job, the client ends, and its error is short.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"id": "2026-01-02_a", "currentState": "JOB_STATE_FAILED", "jobMessages": [{"messageText": "quota\n\tat java.lang"}]}`))
	f.Add([]byte(`{"currentState": "JOB_STATE_NEW", "jobMessages": [{}], "nextPageToken": "a&b"}`))
	f.Add([]byte(`{"currentState": 3}`))
	f.Add([]byte(`null`))
	var answer []byte
	c := &dataflow{http: &http.Client{Transport: answering(func() []byte { return answer })}, jobs: "http://fuzz", pause: time.Nanosecond}
	f.Fuzz(func(t *testing.T, data []byte) {
		answer = data
		if id, err := c.create(t.Context(), object{}); err == nil && id == "" {
			t.Error("a job without an id")
		}
		_, _ = c.running(t.Context(), "a")
		why := c.why(t.Context(), "a")
		why.add(&jobpb.JobMessage{Importance: jobpb.JobMessage_JOB_MESSAGE_ERROR, MessageText: string(data)})
		if err := why.err(jobpb.JobState_FAILED); err == nil || why.marked == "" && len(err.Error()) > maxReason+1000 {
			t.Errorf("%d bytes are shown", len(err.Error()))
		}
		_ = c.cancel(t.Context(), "a")
	})
}

package runners

import (
	"bytes"
	"io"
	"net/http"
	"testing"
	"time"

	jobpb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/jobmanagement_v1"
)

// answerer is an http.RoundTripper that answers every request with the bytes that it returns.
type answerer func() []byte

func (a answerer) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(a())), Request: r}, nil
}

// FuzzAnswer: whatever Dataflow answers to requests about a job, each call of the client returns, and the error of a failed job stays short.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"id": "2026-01-02_a", "currentState": "JOB_STATE_FAILED", "jobMessages": [{"messageText": "quota\n\tat java.lang"}]}`))
	f.Add([]byte(`{"currentState": "JOB_STATE_NEW", "jobMessages": [{}], "nextPageToken": "a&b"}`))
	f.Add([]byte(`{"currentState": 3}`))
	f.Add([]byte(`null`))
	var answer []byte
	c := &dataflow{http: &http.Client{Transport: answerer(func() []byte { return answer })}, jobs: "http://fuzz", pause: time.Nanosecond}
	f.Fuzz(func(t *testing.T, data []byte) {
		answer = data
		if id, err := c.create(t.Context(), object{}); err == nil && id == "" {
			t.Error("create returned neither an id nor an error")
		}
		_, _ = c.running(t.Context(), "a")
		why := c.why(t.Context(), "a")
		why.add(&jobpb.JobMessage{Importance: jobpb.JobMessage_JOB_MESSAGE_ERROR, MessageText: string(data)})
		if err := why.err(jobpb.JobState_FAILED); err == nil || why.marked == "" && len(err.Error()) > maxReason+1000 {
			t.Errorf("the error is %v, want one of at most %d bytes", err, maxReason+1000)
		}
		_ = c.cancel(t.Context(), "a")
	})
}

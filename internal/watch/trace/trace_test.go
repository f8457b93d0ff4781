package trace

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"latentbeam/internal/watch/board"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// example returns spans of two devices: a wait, a batch on both with a step and exchanges, a failed batch, and publishing.
func example() []board.Span {
	at := func(ms int) time.Time { return noon.Add(time.Duration(ms) * time.Millisecond) }
	both := []string{"cpu:0", "cpu:1"}
	return []board.Span{
		{Kind: board.Wait, Stage: "denoise", Shape: "64x64x9", Rows: []string{"a"}, Count: 1, Begin: at(0), End: at(10)},
		{Kind: board.Wait, Stage: "denoise", Shape: "64x64x9", Rows: []string{"b"}, Count: 1, Begin: at(5), End: at(12)},
		{Kind: board.Exchange, Name: "space in", Stage: "denoise", Devices: both[:1], Begin: at(11), End: at(12), Bytes: 99},
		{Kind: board.Exchange, Name: "space in", Stage: "denoise", Devices: both[1:], Begin: at(11), End: at(12), Bytes: 98},
		{Kind: board.Step, Name: "step", Stage: "denoise", Devices: both, Begin: at(10), End: at(20), Count: 1},
		{Kind: board.Work, Stage: "denoise", Devices: both, Rows: []string{"a"}, Count: 1, Begin: at(10), End: at(20)},
		{Kind: board.Work, Stage: "decode_vae", Devices: both[:1], Rows: []string{"a"}, Count: 1, Begin: at(21), End: at(30), Error: "no memory"},
		{Kind: board.Publish, Stage: "publish", Rows: []string{"a"}, Count: 1, Begin: at(31), End: at(40)},
		{Kind: board.Row, Stage: "decode_vae", Rows: []string{"a"}, Count: 1, Begin: at(40), End: at(40), Failure: "row/decode_vae", Error: "no memory"},
		{Kind: board.Row, Stage: "publish", Rows: []string{"b"}, Count: 1, Begin: at(40), End: at(40)},
	}
}

// TestChrome: the file follows the schema of trace events, and every device has a track with nested spans.
func TestChrome(t *testing.T) {
	name := filepath.Join(t.TempDir(), "trace.json")
	c, err := NewChrome(name, noon)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range example() {
		c.Sink().Record(s)
	}
	if err := errors.Join(c.Close(), c.Close()); err != nil {
		t.Fatal(err)
	}
	c.Sink().Record(example()[0]) // spans after Close are ignored
	checkChrome(t, name)
	tracks := map[string][]string{}
	names := map[[2]int]string{}
	for _, e := range readChrome(t, name) {
		at := [2]int{e.PID, e.TID}
		if e.Ph == "M" && e.Name == "thread_name" {
			names[at] = e.Args["name"].(string)
		} else if e.Ph != "M" {
			tracks[names[at]] = append(tracks[names[at]], e.Cat+"/"+e.Name)
		}
	}
	for track, want := range map[string]string{
		"cpu:0": "exchange/space in work/denoise work/decode_vae", "cpu:1": "exchange/space in work/denoise", "cpu:0 steps": "step/step",
		"denoise": "wait/denoise wait/denoise wait/denoise wait/denoise", "publish": "publish/publish publish/publish"} {
		if got := strings.Join(tracks[track], " "); got != want {
			t.Errorf("track %s: got %s, want %s", track, got, want)
		}
	}
}

// readChrome returns the events of a trace file. A key that the type event does not have is an error.
func readChrome(t *testing.T, name string) (events []event) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.DisallowUnknownFields()
	if err := d.Decode(&events); err != nil {
		t.Fatal(err)
	}
	return events
}

// checkChrome checks a file against the rules of the format: phases are known and times not negative, a complete event (phase X) has a
// duration, each begin (b) has its end (e), a track (pid and tid) is named before its first event, and the spans of a track do not cross.
func checkChrome(t *testing.T, name string) {
	t.Helper()
	open, named := map[string]event{}, map[[2]int]bool{}
	byTrack := map[[2]int][]event{}
	for i, e := range readChrome(t, name) {
		at := [2]int{e.PID, e.TID}
		if e.Name == "" || e.TS < 0 || e.PID < 1 {
			t.Errorf("event %d has no name, no process or a negative time: %+v", i, e)
		}
		if e.Ph != "M" && (e.Cat == "" || !named[at]) {
			t.Errorf("event %d has no category, or its track has no name: %+v", i, e)
		}
		switch e.Ph {
		case "M":
			named[at] = named[at] || e.Name == "thread_name"
		case "X":
			if e.Dur == nil || *e.Dur < 0 || e.ID != "" {
				t.Errorf("event %d has no duration, a negative one, or an id: %+v", i, e)
			}
			byTrack[at] = append(byTrack[at], e)
		case "b":
			open[e.Cat+e.ID] = e
		case "e":
			if b, ok := open[e.Cat+e.ID]; !ok || b.TS > e.TS || b.Name != e.Name {
				t.Errorf("event %d ends an event that did not begin: %+v", i, e)
			}
			delete(open, e.Cat+e.ID)
		default:
			t.Errorf("event %d has phase %q", i, e.Ph)
		}
	}
	if len(open) > 0 {
		t.Errorf("events without an end: %v", open)
	}
	const slack = 1 // microsecond
	for at, events := range byTrack {
		for i, a := range events {
			for _, b := range events[:i] {
				apart := a.TS >= b.TS+*b.Dur-slack || b.TS >= a.TS+*a.Dur-slack
				inside := a.TS >= b.TS-slack && a.TS+*a.Dur <= b.TS+*b.Dur+slack || b.TS >= a.TS-slack && b.TS+*b.Dur <= a.TS+*a.Dur+slack
				if !apart && !inside {
					t.Errorf("on track %v, %+v and %+v cross", at, a, b)
				}
			}
		}
	}
}

// TestFile checks the trace file of a real run, which LATENTBEAM_TRACE names.
func TestFile(t *testing.T) {
	name := os.Getenv("LATENTBEAM_TRACE")
	if name == "" {
		t.Skip("set LATENTBEAM_TRACE to a file that run --trace has written")
	}
	checkChrome(t, name)
}

// TestOTLP: a collector receives a span of the run and one of each batch, wait, publication and failed row below it. Its first answer is an
// error, after which the spans are sent again. The test decodes them with OpenTelemetry's own types.
func TestOTLP(t *testing.T) {
	var mu sync.Mutex
	var got []*spans.Span
	service, failures := "", 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if failures == 0 { // the first request fails
			failures++
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		data, err := io.ReadAll(r.Body)
		var request collector.ExportTraceServiceRequest
		if err = errors.Join(err, proto.Unmarshal(data, &request)); err != nil || r.URL.Path != "/v1/traces" ||
			r.Header.Get("X-Key") != "abc" {
			t.Errorf("a request to %s with headers %v: %v", r.URL, r.Header, err)
		}
		for _, rs := range request.ResourceSpans {
			for _, a := range rs.Resource.Attributes {
				if a.Key == "service.name" {
					service = a.Value.GetStringValue()
				}
			}
			for _, ss := range rs.ScopeSpans {
				got = append(got, ss.Spans...)
			}
		}
		answer, _ := proto.Marshal(&collector.ExportTraceServiceResponse{})
		w.Header().Set("Content-Type", "application/x-protobuf")
		_, _ = w.Write(answer)
	}))
	defer server.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "X-Key=abc")
	t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
	t.Setenv("OTEL_SERVICE_NAME", "nightly")
	if yes, err := Enabled(os.Getenv); !yes || err != nil {
		t.Fatalf("tracing is not enabled: %v", err)
	}
	o, err := NewOTLP(t.Context(), "run-1", "1.0")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range example() {
		if s.Kind != board.Step && s.Kind != board.Exchange {
			o.Sink().Record(s)
		}
	}
	o.Close(errors.New("1 row failed"))
	mu.Lock()
	defer mu.Unlock()
	names, root := map[string]*spans.Span{}, (*spans.Span)(nil)
	for _, s := range got {
		names[s.Name] = s
		if s.Name == "run" {
			root = s
		}
	}
	if len(got) != 7 || root == nil || service != "nightly" {
		t.Fatalf("got %d spans of the service %q, want 7 of nightly, with one named run: %v", len(got), service, names)
	}
	if root.Status.Code != spans.Status_STATUS_CODE_ERROR {
		t.Errorf("the run failed, but its span is %v", root)
	}
	work := names["denoise"]
	if work == nil || string(work.ParentSpanId) != string(root.SpanId) || string(work.TraceId) != string(root.TraceId) ||
		work.EndTimeUnixNano-work.StartTimeUnixNano != uint64(10*time.Millisecond) {
		t.Errorf("the span of denoise is %v, want 10 ms below %v", work, root)
	}
	if bad := names["decode_vae"]; bad == nil || bad.Status.Code != spans.Status_STATUS_CODE_ERROR || bad.Status.Message != "no memory" {
		t.Errorf("the span of the failed batch is %v, want the error no memory", bad)
	}
	if names["wait for denoise"] == nil || names["publish"] == nil || names["row failed"] == nil {
		t.Errorf("the span of a wait, a publication or a failed row is missing: %v", names)
	}
}

// TestEnabled: spans are sent if the environment variables of OpenTelemetry ask for it. A protocol or an exporter that this program does not
// have is an error.
func TestEnabled(t *testing.T) {
	for _, c := range []struct {
		env  string // NAME=VALUE, with spaces between
		want bool
		says string // part of the error; "": none
	}{
		{"", false, ""}, {"OTEL_EXPORTER_OTLP_ENDPOINT=http://x:4318", true, ""}, {"OTEL_TRACES_EXPORTER=otlp", true, ""},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://x OTEL_SDK_DISABLED=true", false, ""},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://x OTEL_TRACES_EXPORTER=none", false, ""},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://x OTEL_EXPORTER_OTLP_PROTOCOL=grpc", false, "port 4318"},
		{"OTEL_TRACES_EXPORTER=zipkin", false, "zipkin"},
	} {
		env := map[string]string{}
		for _, one := range strings.Fields(c.env) {
			k, v, _ := strings.Cut(one, "=")
			env[k] = v
		}
		got, err := Enabled(func(k string) string { return env[k] })
		if got != c.want || (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: got %v, %v; want %v, %q", c.env, got, err, c.want, c.says)
		}
	}
}

package stores

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/internal/storage/fingerprints"
	"latentbeam/internal/storage/source"
	"latentbeam/internal/storage/store/bucket/buckettest"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
)

// closedPort returns the address of a port of this host on which no process listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	jobtest.Must(t, err)
	defer l.Close()
	return l.Addr().String()
}

// TestHostThatDoesNotAnswer: rows of a host that refuses connections fail with class retry, and the others are computed. The next run
// tries them again. If no host answers, nothing is recorded.
func TestHostThatDoesNotAnswer(t *testing.T) {
	t.Setenv(fingerprints.CacheVariable, t.TempDir())
	source.Clock = buckettest.NewClock()
	t.Cleanup(func() { source.Clock = nil })
	up := httptest.NewServer(http.FileServer(http.Dir(jobtest.Clips)))
	defer up.Close()
	down := closedPort(t)
	table := jobtest.WriteTable(t, "p.csv", fmt.Sprintf("id,media,num_frames\na,http://%s/triangle.png,1\nb,%s/triangle.png,1\n"+
		"c,http://%s/other.png,1\nd,%s/none.png,1\n", down, up.URL, down, up.URL))
	j := jobtest.MediaJob(t, table, "[encode_vae]", "output.write=[latents]")
	r, err := j.Run()
	if err != nil || r.Totals.Done != 1 || r.Totals.Failed != 3 || r.Plan.Away != 2 || r.Plan.Mend() != "mend "+table+":5" {
		t.Fatalf("got totals %+v, %d rows of hosts that do not answer, %s, %v", r.Totals, r.Plan.Away, r.Plan.Mend(), err)
	}
	classes := map[string]string{}
	for _, f := range jobtest.ReadRows[schemas.FailureRow](t, j.Out, "failures") {
		classes[f.ID] = f.Class + " " + f.Source
		if f.ID != "d" && !strings.Contains(f.Message, "connection refused") {
			t.Errorf("row %s failed: %s", f.ID, f.Message)
		}
	}
	for id, want := range map[string]string{"a": "retry " + table + ":2", "c": "retry " + table + ":4", "d": "row " + table + ":5"} {
		if classes[id] != want {
			t.Errorf("row %s failed with class %q, want %q", id, classes[id], want)
		}
	}

	l, err := net.Listen("tcp", down)
	jobtest.Must(t, err)
	back := &http.Server{Handler: http.FileServer(http.Dir(jobtest.Clips))}
	go func() { _ = back.Serve(l) }()
	if r, err = j.Run(); err != nil || r.Done != 0 || r.Totals.Done != 2 || r.Totals.Failed != 2 || r.Plan.Away != 0 {
		t.Errorf("after the host answers again: %d computed, %+v, %d away, %v", r.Done, r.Totals, r.Plan.Away, err)
	}
	files := jobtest.MediaJob(t, fmt.Sprintf("[\"http://%s/none.png\", %q, \"http://%s/x.png\"]", closedPort(t), jobtest.Clips+"triangle.png", closedPort(t)),
		"[encode_vae]", "output.write=[latents]", "defaults.num_frames=1")
	files.Input = strings.Replace(files.Input, "]", fmt.Sprintf(", \"http://%s/triangle.png\"]", down), 1)
	if r, err := files.Run(); err != nil || r.Totals.Done != 2 || r.Plan.Away != 2 || r.Totals.Failed != 2 {
		t.Errorf("a list of files: got %+v, %d rows of hosts that do not answer, %v", r.Totals, r.Plan.Away, err)
	}
	before := jobtest.MustRead(t, j.Out)
	jobtest.Must(t, back.Close())
	up.Close()
	r, err = j.Run()
	if fault.ExitCode(err) != fault.ExitTryAgain || !strings.Contains(err.Error(), down) || !strings.Contains(err.Error(), up.URL) {
		t.Errorf("no host answers: got error %v", err)
	}
	if after := jobtest.MustRead(t, j.Out); !reflect.DeepEqual(before, after) {
		t.Error("no host answers, but the run changed the output")
	}
}

// TestRefusedFile: a file that a web server refuses fails its row alone, before and after other files of this server were read.
func TestRefusedFile(t *testing.T) {
	t.Setenv(fingerprints.CacheVariable, t.TempDir())
	files := http.FileServer(http.Dir(jobtest.Clips))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/no.png":
			w.WriteHeader(http.StatusForbidden)
		case "/loop.png":
			http.Redirect(w, r, "/loop.png", http.StatusFound)
		default:
			files.ServeHTTP(w, r)
		}
	}))
	defer server.Close()
	table := jobtest.WriteTable(t, "p.csv", strings.ReplaceAll("id,media,num_frames\na,URL/no.png,1\nb,URL/triangle.png,1\n"+
		"c,URL/no.png,1\nd,URL/loop.png,1\n", "URL", server.URL))
	j := jobtest.MediaJob(t, table, "[encode_vae]", "output.write=[latents]")
	r, err := j.Run()
	if err != nil || r.Totals.Done != 1 || r.Totals.Failed != 3 || r.Plan.Mend() != "mend "+table+":2 and 2 more" {
		t.Fatalf("got totals %+v, %s, %v", r.Totals, r.Plan.Mend(), err)
	}
	for _, f := range jobtest.ReadRows[schemas.FailureRow](t, j.Out, "failures") {
		if f.Class != "row" || !strings.Contains(f.Message, "the server refuses this file") {
			t.Errorf("row %s failed with class %s: %s", f.ID, f.Class, f.Message)
		}
	}
}

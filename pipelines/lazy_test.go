package pipelines

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"latentbeam/internal/config"
	"latentbeam/schemas/fault"
)

// TestLazySource: a server that refuses the input is trouble that may pass, and the next time it is asked again; an input
// that is not there ends the job.
func TestLazySource(t *testing.T) {
	answer := http.StatusForbidden
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if answer != http.StatusOK {
			http.Error(w, "not yet", answer)
			return
		}
		w.Header().Set("ETag", `"1"`)
		_, _ = w.Write([]byte("prompt\na\nb\n"))
	}))
	defer server.Close()
	t.Setenv("LATENTBEAM_CACHE", t.TempDir())
	cfg, err := config.Parse("job.yaml", "version: 1\nmodel: tiny\ninput: {prompts: \""+server.URL+"/rows.csv\"}\noutput: {path: out}\n", nil)
	if err != nil {
		t.Fatal(err)
	}
	source := lazily(cfg, 0, nil, wanted{})
	read := func() (n int, err error) {
		for _, err := range source.Rows(t.Context(), false) {
			if err != nil {
				return n, err
			}
			n++
		}
		return n, nil
	}
	for _, c := range []struct{ answer, rows, exit int }{
		{http.StatusForbidden, 0, fault.ExitTryAgain},
		{http.StatusNotFound, 0, fault.ExitUsage},
		{http.StatusOK, 2, fault.ExitDone},
	} {
		answer = c.answer
		if n, err := read(); n != c.rows || fault.ExitCode(err) != c.exit {
			t.Errorf("%d: %d rows, exit %d (%v), want %d, exit %d", c.answer, n, fault.ExitCode(err), err, c.rows, c.exit)
		}
	}
}

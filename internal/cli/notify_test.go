package cli

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// quick makes the delays between attempts short.
func quick(t *testing.T) {
	old := retryDelays
	retryDelays = []time.Duration{time.Millisecond, time.Millisecond, time.Millisecond}
	t.Cleanup(func() { retryDelays = old })
}

// parse parses a hook with these environment variables.
func parse(t *testing.T, text string, env ...string) hook {
	t.Helper()
	h, err := parseHook(text, func(name string) (string, bool) {
		for i := 0; i < len(env); i += 2 {
			if env[i] == name {
				return env[i+1], true
			}
		}
		return "", false
	})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

var event = hookEvent{Output: "/a b/out", Run: "r1", Summary: []byte(`{"state":"complete"}`)}

// TestPost: a server that fails twice gets the summary at the third attempt. A server that refuses is asked once.
func TestPost(t *testing.T) {
	quick(t)
	var answers []int
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Method != "POST" || string(body) != string(event.Summary) || r.URL.Path != "/secret" ||
			r.Header.Get("Latentbeam-Run") != "r1" || r.Header.Get("Latentbeam-Output") != "%2Fa%20b%2Fout" ||
			r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("got the request %s %s %v with body %s", r.Method, r.URL, r.Header, body)
		}
		w.WriteHeader(answers[min(asked, len(answers)-1)])
		asked++
	}))
	defer server.Close()
	h := parse(t, "${HOOK}", "HOOK", server.URL+"/secret")
	for _, c := range []struct {
		answers []int
		asked   int
		says    string
	}{
		{[]int{503, 429, 204}, 3, ""}, {[]int{200}, 1, ""}, {[]int{404}, 1, "404 Not Found (tried 1 times)"},
		{[]int{500}, 4, "500 Internal Server Error (tried 4 times)"},
	} {
		answers, asked = c.answers, 0
		err := h.Run(t.Context(), event, io.Discard)
		if asked != c.asked || (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("answers %v: got %d requests, error %v", c.answers, asked, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("the error contains the path of the URL, which may be secret: %v", err)
		}
	}
	server.Close()
	if err := h.Run(t.Context(), event, io.Discard); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("without a server: got error %v", err)
	}
}

// TestCommand: a command gets the summary on stdin, is tried again if it fails, and its output is shown.
func TestCommand(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs a POSIX shell")
	}
	quick(t)
	dir := t.TempDir()
	h := parse(t, `cat > "`+dir+`/got"; echo "$LATENTBEAM_OUTPUT $LATENTBEAM_RUN" | tee -a "`+dir+`/tries"; test $(wc -l < "`+dir+`/tries") -gt 2`)
	var out bytes.Buffer
	if err := h.Run(t.Context(), event, &out); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, "got"))
	if err != nil || string(got) != string(event.Summary) || out.String() != strings.Repeat("/a b/out r1\n", 3) {
		t.Errorf("got error %v, summary %s, output %s", err, got, &out)
	}
	err = parse(t, "exit 3").Run(t.Context(), event, &out)
	if err == nil || err.Error() != "on_complete: exit 3: exit status 3 (tried 4 times)" {
		t.Errorf("a command that fails: got error %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := parse(t, "sleep 100").Run(ctx, event, &out); err == nil {
		t.Error("a hook whose context has ended returned no error")
	}
}

// TestParse: a hook is a URL or a command. Variables of the environment are replaced in URLs, and a wrong hook is an error.
func TestParse(t *testing.T) {
	none := func(string) (string, bool) { return "", false }
	for text, says := range map[string]string{"": "is empty", "  ": "is empty", "https://x/$TOKEN": "the environment has no TOKEN",
		"http://": "is no URL", "$HOOK": "the environment has no HOOK"} {
		if _, err := parseHook(text, none); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("hook %q: got error %v", text, err)
		}
	}
	_, err := parseHook("$HOOK", func(string) (string, bool) { return "s3cret", true })
	if err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("got error %v", err)
	}
	if h, err := parseHook("echo $HOME | mail me", none); err != nil || h.url != nil {
		t.Errorf("a command with a variable: got error %v", err)
	}
	if h := parse(t, "https://host/a/$T?x=${U}", "T", "1", "U", "2"); h.url.String() != "https://host/a/1?x=2" ||
		h.String() != "https://host/..." {
		t.Errorf("got the hook %v", h)
	}
}

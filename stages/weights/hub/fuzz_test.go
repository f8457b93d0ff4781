package hub

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// FuzzAnswer: for every answer of a hub, the client returns a result or an error, and no file whose name leads out of the
// cache.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"sha": "0123456789abcdef0123456789abcdef01234567", "cardData": {"license": ["mit", 7]}}`))
	f.Add([]byte(`[{"type": "file", "path": "a/b.json", "size": 3, "oid": "x", "lfs": {"oid": "y", "size": 3}}, {"type": "directory", "path": ".."}]`))
	f.Add([]byte(`{"error": "no"}`))
	var answer []byte
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(answer) }))
	f.Cleanup(server.Close)
	f.Setenv("HF_ENDPOINT", server.URL)
	f.Setenv("HF_TOKEN", "none")
	c, err := NewClient("fuzz")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		answer = data
		info, err := c.Info(t.Context(), Repo{Name: "a/b"})
		if err == nil && !commitID.MatchString(info.Commit) {
			t.Errorf("a commit called %q", info.Commit)
		}
		_, _ = c.Files(t.Context(), "a/b", "0123456789abcdef0123456789abcdef01234567")
	})
}

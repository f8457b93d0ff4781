package latentbeam_test

import (
	"crypto/md5"
	"encoding/base64"
	"fmt"
	"html"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"latentbeam/internal/system/testaid"
)

// azure implements in memory the part of Azure Blob Storage that examples/store needs.
type azure struct {
	mu    sync.Mutex
	blobs map[string][]byte
	tags  map[string]string // ETag of each blob
	lies  bool              // ignore If-None-Match
	count int               // number of writes, of which ETags are made
}

func (a *azure) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	refuse := func(status int, code string) {
		w.Header().Set("x-ms-error-code", code)
		w.WriteHeader(status)
	}
	key, inside := strings.CutPrefix(r.URL.Path, "/account/videos/")
	data, found := a.blobs[key]
	match := r.Header.Get("If-Match")
	switch {
	case r.URL.Query().Get("sig") != "a signature+/":
		refuse(http.StatusForbidden, "AuthenticationFailed")
	case !inside && r.URL.Path == "/account/videos":
		a.list(w, r)
	case !inside:
		refuse(http.StatusNotFound, "ContainerNotFound")
	case r.Method == http.MethodPut && found && r.Header.Get("If-None-Match") == "*" && !a.lies:
		refuse(http.StatusConflict, "BlobAlreadyExists")
	case match != "" && match != a.tags[key]:
		refuse(http.StatusPreconditionFailed, "ConditionNotMet")
	case r.Method == http.MethodPut:
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Header.Get("x-ms-blob-type") != "BlockBlob" {
			refuse(http.StatusBadRequest, "InvalidHeaderValue")
			return
		}
		a.count++
		a.blobs[key], a.tags[key] = body, fmt.Sprintf(`"0x%d"`, a.count)
		w.Header().Set("ETag", a.tags[key])
		w.WriteHeader(http.StatusCreated)
	case !found:
		refuse(http.StatusNotFound, "BlobNotFound")
	case r.Method == http.MethodDelete:
		delete(a.blobs, key)
		delete(a.tags, key)
		w.WriteHeader(http.StatusAccepted)
	default:
		sum := md5.Sum(data)
		w.Header().Set("ETag", a.tags[key])
		w.Header().Set("Content-MD5", base64.StdEncoding.EncodeToString(sum[:]))
		http.ServeContent(w, r, "", time.Now(), strings.NewReader(string(data)))
	}
}

// list writes a page of the list of blobs.
func (a *azure) list(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	most, _ := strconv.Atoi(q.Get("maxresults"))
	fmt.Fprint(w, "<EnumerationResults><Blobs>")
	next, n := "", 0
	for _, key := range slices.Sorted(maps.Keys(a.blobs)) {
		rest, below := strings.CutPrefix(key, q.Get("prefix"))
		if !below || key < q.Get("marker") || q.Get("delimiter") != "" && strings.Contains(rest, "/") {
			continue
		}
		if n == most {
			next = key
			break
		}
		n++
		fmt.Fprintf(w, "<Blob><Name>%s</Name><Properties><Last-Modified>%s</Last-Modified><Etag>%s</Etag><Content-Length>%d</Content-Length>"+
			"</Properties></Blob>", html.EscapeString(key), time.Now().UTC().Format(http.TimeFormat), strings.Trim(a.tags[key], `"`), len(a.blobs[key]))
	}
	fmt.Fprintf(w, "</Blobs><NextMarker>%s</NextMarker></EnumerationResults>", html.EscapeString(next))
}

// TestStoreOutside: a job writes its output to the service of examples/store, and the next run finds it complete. A service that
// ignores conditional requests is refused, and no message shows the signature.
func TestStoreOutside(t *testing.T) {
	testaid.Long(t, "it builds a program and runs three jobs")
	dir, program := module(t, "store")
	service := &azure{blobs: map[string][]byte{}, tags: map[string]string{}}
	server := httptest.NewServer(service)
	defer server.Close()
	t.Setenv("XDG_CACHE_HOME", t.TempDir()) // a host caches there which stores it has checked
	t.Setenv("AZURE_STORAGE_ENDPOINT", server.URL+"/account")
	t.Setenv("AZURE_STORAGE_SAS_TOKEN", "sv=2021-12-02&sig=a+signature%2B%2F")
	said := run(t, dir, program, "run", "job.yaml")
	if again := run(t, dir, program, "run", "job.yaml"); !strings.Contains(again, "0 to do") {
		t.Errorf("the second run does not find the output complete:\n%s", again)
	}
	said += run(t, dir, program, "verify", "az://videos/first")
	said += run(t, dir, program, "doctor", "az://videos")
	videos := 0
	for key := range service.blobs {
		if strings.HasPrefix(key, "first/videos/") && strings.HasSuffix(key, ".mp4") {
			videos++
		}
	}
	if videos != 2 {
		t.Errorf("%d videos, want 2: %v", videos, slices.Sorted(maps.Keys(service.blobs)))
	}

	service.lies = true
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	cmd := exec.Command(program, "run", "job.yaml", "--output", "az://videos/second")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), "put if absent") {
		t.Errorf("a service that ignores If-None-Match: %v, want exit code 2\n%s", err, out)
	}
	for _, secret := range []string{"a signature+/", "a+signature%2B%2F"} {
		if strings.Contains(said+string(out), secret) {
			t.Errorf("messages show %q", secret)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "az:")); err == nil {
		t.Error("a local folder az: was made of the address az://videos/...")
	}
}

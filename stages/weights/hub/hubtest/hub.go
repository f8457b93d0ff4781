// Package hubtest is a model hub in this process, for tests. It lists repositories, sends large files from a second server,
// supports ranges, gated and private repositories, and imitates the failures of hubs and networks.
package hubtest

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Commit is the commit of every repository.
const Commit = "0123456789abcdef0123456789abcdef01234567"

// Token gives access to gated repositories.
const Token = "hf_good"

// large is the size from which a file is stored separately and listed with its SHA-256.
const large = 1 << 10

// Repo is a repository on the hub.
type Repo struct {
	Files    map[string]string
	Gated    bool
	Private  bool
	Licence  string
	Revision string // in addition to main and the commit
}

// Hub is a hub. Its fields may be changed between requests.
type Hub struct {
	Repos map[string]Repo
	URL   string

	mu         sync.Mutex
	Cut        int               // bytes after which the next answers of large files break; 0: never
	Cuts       int               // how many answers break
	NoRanges   bool              // every answer is the whole file
	Busy       int               // how many of the next requests get status 503
	Forged     map[string]string // content that is sent instead of a file's
	Long       bool              // more is sent than is listed
	Sizes      map[string]int64  // listed instead of a file's size
	Asked      []string          // paths and ranges of the requests for large files
	Endless    bool              // every page of a list has a next page, with directories only
	Next       string            // address of the next page on each page of a list; "": the right one
	Linked     bool              // the second page of a list is on the second server
	Sent       bool              // every page of a list is on the second server, by a redirect
	Met        []string          // requests to the second server that contained a token
	contentURL string            // address of the second server
	page       int               // number of pages of lists so far
}

// New starts a hub. It stops when the test ends.
func New(t testing.TB, repos map[string]Repo) *Hub {
	t.Helper()
	h := &Hub{Repos: repos, Forged: map[string]string{}}
	store := httptest.NewServer(http.HandlerFunc(h.content))
	t.Cleanup(store.Close)
	front := httptest.NewServer(http.HandlerFunc(h.front))
	t.Cleanup(front.Close)
	h.URL, h.contentURL = front.URL, store.URL
	return h
}

// refuse sends an error as the hub does.
func refuse(w http.ResponseWriter, code int, kind, message string) {
	w.Header().Set("X-Error-Code", kind)
	w.Header().Set("X-Error-Message", message)
	w.WriteHeader(code)
}

// front handles the requests of the server that knows the repositories.
func (h *Hub) front(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.Busy > 0 {
		h.Busy--
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	path, isAPI := strings.CutPrefix(r.URL.Path, "/api/models/")
	path = strings.TrimPrefix(path, "/")
	parts := strings.SplitN(path, "/", 5)
	if len(parts) < 4 {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	name, verb, revision := parts[0]+"/"+parts[1], parts[2], parts[3]
	repo, known := h.Repos[name]
	open := r.Header.Get("Authorization") == "Bearer "+Token
	switch {
	case !known && !open, repo.Private && !open:
		refuse(w, http.StatusUnauthorized, "RepoNotFound", "Repository not found")
	case !known:
		refuse(w, http.StatusNotFound, "RepoNotFound", "Repository not found")
	case !slices.Contains([]string{"main", Commit, repo.Revision}, revision):
		refuse(w, http.StatusNotFound, "RevisionNotFound", "Invalid rev id: "+revision)
	case isAPI && verb == "revision":
		_ = json.NewEncoder(w).Encode(map[string]any{"id": name, "sha": Commit, "cardData": map[string]any{"license": repo.Licence}})
	case isAPI && verb == "tree" && h.Sent:
		http.Redirect(w, r, h.contentURL+r.URL.RequestURI(), http.StatusFound)
	case isAPI && verb == "tree":
		h.tree(w, r, repo)
	case repo.Gated && !open && r.Header.Get("Authorization") == "":
		refuse(w, http.StatusUnauthorized, "GatedRepo", "Access to model "+name+" is restricted.")
	case repo.Gated && !open:
		refuse(w, http.StatusForbidden, "GatedRepo", "Access to model "+name+" is restricted.")
	default:
		h.resolve(w, r, name, repo, parts[4])
	}
}

// ID returns the name of the blob for a content.
func ID(content string) string {
	if len(content) >= large {
		return fmt.Sprintf("%x", sha256.Sum256([]byte(content)))
	}
	return fmt.Sprintf("%x", sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(content), content)))
}

// tree lists the files, three on a page.
func (h *Hub) tree(w http.ResponseWriter, r *http.Request, repo Repo) {
	var names []string
	for name := range repo.Files {
		names = append(names, name)
	}
	slices.Sort(names)
	after := r.URL.Query().Get("cursor")
	from, _ := slices.BinarySearch(names, after)
	to := min(from+3, len(names))
	if to < len(names) {
		server := h.URL
		if h.Linked {
			server = h.contentURL
		}
		w.Header().Set("Link", fmt.Sprintf(`<%s%s?recursive=true&cursor=%s>; rel="next"`, server, r.URL.Path, names[to]))
	}
	switch {
	case h.Endless:
		h.page++
		w.Header().Set("Link", fmt.Sprintf(`<%s%s?recursive=true&cursor=zzz&page=%d>; rel="next"`, h.URL, r.URL.Path, h.page))
	case h.Next != "":
		w.Header().Set("Link", fmt.Sprintf(`<%s>; rel="next"`, h.Next))
	}
	page := []map[string]any{{"type": "directory", "path": "d", "oid": "0"}}
	for _, name := range names[from:to] {
		content := repo.Files[name]
		e := map[string]any{"type": "file", "path": name, "size": len(content), "oid": ID(content)}
		if len(content) >= large {
			e["oid"] = strings.Repeat("0", 40)
			e["lfs"] = map[string]any{"oid": ID(content), "size": len(content), "pointerSize": 130}
		}
		if size, ok := h.Sizes[name]; ok {
			e["size"], e["lfs"] = size, map[string]any{"oid": ID(strings.Repeat("x", large)), "size": size, "pointerSize": 130}
		}
		page = append(page, e)
	}
	_ = json.NewEncoder(w).Encode(page)
}

// resolve sends a small file, or redirects to the second server.
func (h *Hub) resolve(w http.ResponseWriter, r *http.Request, name string, repo Repo, file string) {
	content, ok := repo.Files[file]
	if !ok {
		refuse(w, http.StatusNotFound, "EntryNotFound", "Entry not found")
		return
	}
	w.Header().Set("X-Repo-Commit", Commit)
	w.Header().Set("ETag", `"`+ID(content)+`"`)
	if len(content) >= large {
		w.Header().Set("X-Linked-Etag", `"`+ID(content)+`"`)
		w.Header().Set("X-Linked-Size", fmt.Sprint(len(content)))
		http.Redirect(w, r, h.contentURL+"/"+name+"/"+file+"?signature=secret", http.StatusFound)
		return
	}
	if forged, ok := h.Forged[file]; ok {
		content = forged
	}
	w.Header().Set("Content-Length", fmt.Sprint(len(content)))
	if r.Method != http.MethodHead {
		_, _ = w.Write([]byte(content))
	}
}

// Change changes the hub while broken answers may still be running.
func (h *Hub) Change(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
}

// content handles the requests of the second server. It refuses a token, as servers of signed addresses do.
func (h *Hub) content(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r.Header.Get("Authorization") != "" {
		h.Met = append(h.Met, r.URL.Path)
		http.Error(w, "only one way of authorization is allowed", http.StatusBadRequest)
		return
	}
	if path, isAPI := strings.CutPrefix(r.URL.Path, "/api/models/"); isAPI {
		parts := strings.SplitN(path, "/", 3)
		h.tree(w, r, h.Repos[parts[0]+"/"+parts[1]])
		return
	}
	parts := strings.SplitN(strings.TrimPrefix(r.URL.Path, "/"), "/", 3)
	content := h.Repos[parts[0]+"/"+parts[1]].Files[parts[2]]
	if forged, ok := h.Forged[parts[2]]; ok {
		content = forged
	}
	if h.Long {
		content += "more"
	}
	h.Asked = append(h.Asked, strings.TrimSpace(parts[2]+" "+r.Header.Get("Range")))
	from := 0
	if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from); err == nil && !h.NoRanges {
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(content)-1, len(content)))
	} else {
		from = 0
	}
	w.Header().Set("Content-Length", fmt.Sprint(len(content)-from))
	if w.Header().Get("Content-Range") != "" {
		w.WriteHeader(http.StatusPartialContent)
	}
	if r.Method == http.MethodHead {
		return
	}
	rest := content[from:]
	if h.Cuts > 0 && h.Cut < len(rest) {
		h.Cuts--
		_, _ = w.Write([]byte(rest[:h.Cut]))
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler) // the connection breaks
	}
	_, _ = w.Write([]byte(rest))
}

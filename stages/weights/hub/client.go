package hub

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"latentbeam/schemas/fault"
)

// defaultEndpoint is the hub if HF_ENDPOINT is not set.
const defaultEndpoint = "https://huggingface.co"

const (
	maxAnswer     = 64 << 20 // bytes of one answer that is not a file
	maxFiles      = 100_000  // of a repository, with directories
	maxPages      = 2_000    // of a list of files: a hub sends 1,000 files on a page, or 50
	maxEmptyPages = 20       // pages in a row without a file
	maxBytes      = 1 << 50  // of a repository: larger sizes are wrong, and their sum could overflow
	// headerTime is how long a server may take to start an answer.
	headerTime = 60 * time.Second
	// listTime is how long the complete list of files may take.
	listTime = 10 * time.Minute
)

// Client sends requests to a hub.
type Client struct {
	endpoint string
	token    string // "" for none
	agent    string
	http     *http.Client
	wait     func(ctx context.Context, attempt int, asked time.Duration) error
	idle     time.Duration // how long an answer may make no progress

	// Retrying is called before a failed request is tried again, with the number of attempts; it may be nil.
	Retrying func(err error, tried, of int)
}

// Endpoint returns the hub's address, such as https://huggingface.co.
func (c *Client) Endpoint() string { return c.endpoint }

// NewClient returns a client for the hub in HF_ENDPOINT, with the token from HF_TOKEN or from the file that `hf auth login`
// writes. agent is the program's User-Agent.
func NewClient(agent string) (*Client, error) {
	if v := os.Getenv("HF_HUB_OFFLINE"); slices.Contains([]string{"1", "ON", "YES", "TRUE"}, strings.ToUpper(v)) {
		return nil, fault.Usage(fmt.Errorf("HF_HUB_OFFLINE is %s, so nothing is downloaded: unset it", v))
	}
	c := &Client{endpoint: defaultEndpoint, agent: agent, wait: pause, idle: headerTime}
	if v := os.Getenv("HF_ENDPOINT"); v != "" {
		u, err := url.Parse(v)
		if err != nil || u.Host == "" || u.User != nil || u.Scheme != "http" && u.Scheme != "https" {
			return nil, fault.Usage(errors.New("HF_ENDPOINT: want http(s)://host without a user, such as https://huggingface.co"))
		}
		c.endpoint = strings.TrimRight(v, "/")
	}
	var err error
	if c.token, err = readToken(); err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout, transport.DisableCompression = headerTime, true
	home, err := url.Parse(c.endpoint)
	if err != nil {
		return nil, err
	}
	c.http = &http.Client{Transport: &authorized{transport, home, c.token}, CheckRedirect: redirect}
	return c, nil
}

// authorized sends the token only to the hub. An address can also come from a user, a redirect, or an answer that links to the
// next page.
type authorized struct {
	http.RoundTripper
	hub   *url.URL
	token string // "" for none
}

// RoundTrip implements http.RoundTripper.
func (a *authorized) RoundTrip(req *http.Request) (*http.Response, error) {
	if a.token != "" && req.URL.Scheme == a.hub.Scheme && strings.EqualFold(req.URL.Host, a.hub.Host) {
		req = req.Clone(req.Context())
		req.Header.Set("Authorization", "Bearer "+a.token)
	}
	return a.RoundTripper.RoundTrip(req)
}

// maxRedirects limits the redirects of one request.
const maxRedirects = 10

// redirect checks the redirects of one request.
func redirect(next *http.Request, before []*http.Request) error {
	if len(before) > maxRedirects {
		return &wrongAddress{"the hub sends the request from one address to the next without an end"}
	}
	return checkAddress(next.URL)
}

// wrongAddress says that a hub sent an address that is refused. Retrying does not help.
type wrongAddress struct{ text string }

// Error returns the text.
func (w *wrongAddress) Error() string { return w.text }

// checkAddress returns an error if u is not the address of a web server.
func checkAddress(u *url.URL) error {
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return &wrongAddress{fmt.Sprintf("the hub names an address that begins with %q and is none of a web server", u.Scheme)}
	}
	return nil
}

// readToken returns the user's token, "" if there is none.
func readToken() (string, error) {
	for _, name := range []string{"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"} {
		if v := strings.TrimSpace(os.Getenv(name)); v != "" {
			return checkToken(name, v)
		}
	}
	file := os.Getenv("HF_TOKEN_PATH")
	if file == "" {
		home, err := homeDir()
		if err != nil {
			return "", nil // then there is none
		}
		file = filepath.Join(home, "token")
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return "", nil
	}
	return checkToken(file, strings.TrimSpace(string(data)))
}

// checkToken returns an error for a token that is not valid in a header. The message does not contain the token.
func checkToken(where, token string) (string, error) {
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fault.Usage(fmt.Errorf("the token in %s holds a space or a character that no token has", where))
	}
	return token, nil
}

// get sends a request. An unsuccessful status becomes an error; otherwise the caller must close the body.
func (c *Client) get(ctx context.Context, address string, from int64) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", c.agent)
	if from > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", from))
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, unreachable(err)
	}
	if resp.StatusCode == http.StatusOK || from > 0 && resp.StatusCode == http.StatusPartialContent {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, refusal(resp)
}

// read returns the complete answer to a request. It retries errors that may pass.
func (c *Client) read(ctx context.Context, address string) (data []byte, next string, err error) {
	err = c.retry(ctx, func() (bool, error) {
		ctx, leave := context.WithCancel(ctx)
		defer leave()
		resp, err := c.get(ctx, address, 0)
		if err != nil {
			return false, err
		}
		defer resp.Body.Close()
		body := newPaced(resp.Body, c.idle, leave)
		defer body.stop()
		data, err = io.ReadAll(io.LimitReader(body, maxAnswer+1))
		if err != nil {
			return false, err
		}
		if len(data) > maxAnswer {
			return false, fmt.Errorf("the hub's answer has more than %d bytes", maxAnswer)
		}
		next, err = nextPage(resp)
		return false, err
	})
	return data, next, err
}

// nextPage returns the address of the next page, "" on the last page.
func nextPage(resp *http.Response) (string, error) {
	for _, link := range resp.Header.Values("Link") {
		for part := range strings.SplitSeq(link, ",") {
			address, rel, _ := strings.Cut(part, ";")
			if strings.Contains(rel, `rel="next"`) {
				u, err := resp.Request.URL.Parse(strings.Trim(strings.TrimSpace(address), "<>"))
				if err != nil {
					return "", &wrongAddress{"the hub names an address of the next page that cannot be read"}
				}
				return u.String(), checkAddress(u)
			}
		}
	}
	return "", nil
}

// RepoInfo is what a hub says about a repository.
type RepoInfo struct {
	Commit  string
	Licence string // such as "apache-2.0"; "" if the repository names none
	Terms   string // address of the text of a custom licence
}

// Info requests the facts about a repository at a revision.
func (c *Client) Info(ctx context.Context, r Repo) (RepoInfo, error) {
	data, _, err := c.read(ctx, c.api(r.Name, "revision", r.wanted()))
	if err != nil {
		return RepoInfo{}, err
	}
	var answer struct {
		SHA      string `json:"sha"`
		CardData struct {
			License     any    `json:"license"`
			LicenseName string `json:"license_name"`
			LicenseLink string `json:"license_link"`
		} `json:"cardData"`
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return RepoInfo{}, fmt.Errorf("read what the hub says: %w", err)
	}
	if !commitID.MatchString(answer.SHA) {
		return RepoInfo{}, errors.New("the hub's answer names no commit: is HF_ENDPOINT a hub?")
	}
	info := RepoInfo{Commit: answer.SHA, Terms: answer.CardData.LicenseLink}
	switch v := answer.CardData.License.(type) {
	case string:
		info.Licence = v
	case []any:
		info.Licence = strings.Trim(fmt.Sprint(v), "[]")
	}
	if name := answer.CardData.LicenseName; name != "" {
		info.Licence = name
	}
	return info, nil
}

// Files lists the files of a commit.
func (c *Client) Files(ctx context.Context, repo, commit string) ([]RepoFile, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, listTime, brokenConnection{fmt.Errorf("the list of files was not whole after %v", listTime)})
	defer cancel()
	var files []RepoFile
	var bytes int64
	entries, pages, bare := 0, 0, 0
	for address := c.api(repo, "tree", commit) + "?recursive=true"; address != ""; pages++ {
		data, next, err := c.read(ctx, address)
		if errors.Is(err, context.DeadlineExceeded) {
			err = context.Cause(ctx)
		}
		if err != nil {
			return nil, err
		}
		found, n, err := parsePage(data)
		if err != nil {
			return nil, err
		}
		for _, f := range found {
			if bytes += f.Size; bytes > maxBytes { // one size is within the limit, so the sum cannot overflow
				return nil, fmt.Errorf("the hub lists files of more than %d bytes in all", int64(maxBytes))
			}
		}
		if bare++; len(found) > 0 {
			bare = 0
		}
		files, entries = append(files, found...), entries+n
		switch {
		case entries > maxFiles:
			return nil, fmt.Errorf("the repository has more than %d files and directories", maxFiles)
		case next != "" && (n == 0 || next == address || bare == maxEmptyPages || pages == maxPages-1):
			return nil, fmt.Errorf("the list of files has no end: page %d has %d entries, and names another page", pages+1, n)
		}
		address = next
	}
	return files, nil
}

// parsePage parses a page of a list: the files, and the number of entries with directories.
func parsePage(data []byte) (files []RepoFile, entries int, err error) {
	var page []struct {
		Type, Path, OID string
		Size            int64
		LFS             *struct {
			OID  string
			Size int64
		}
	}
	if err := json.NewDecoder(bytes.NewReader(data)).Decode(&page); err != nil {
		return nil, 0, fmt.Errorf("read the list of files: %w", err)
	}
	for _, e := range page {
		if e.Type != "file" {
			continue
		}
		f := RepoFile{Path: e.Path, Size: e.Size, ID: e.OID}
		if e.LFS != nil {
			f.ID, f.Size = e.LFS.OID, e.LFS.Size
		}
		if err := f.check(); err != nil {
			return nil, 0, err
		}
		files = append(files, f)
	}
	return files, len(page), nil
}

// check returns an error for a listed file that could be written outside of the cache or cannot be verified.
func (f RepoFile) check() error {
	switch {
	case !filepath.IsLocal(filepath.FromSlash(f.Path)) || strings.ContainsAny(f.Path, "\\:\x00") || len(f.Path) > 1024:
		return fmt.Errorf("the hub lists a file %q, whose name could lead out of the cache", f.Path)
	case f.Size < 0 || f.Size > maxBytes:
		return fmt.Errorf("the hub lists a file %q of %d bytes", f.Path, f.Size)
	case digestOf(f) == nil:
		return fmt.Errorf("the hub lists %q without a digest that is known here: %q", f.Path, f.ID)
	}
	return nil
}

// api returns the address of an API call about a repository.
func (c *Client) api(repo, question, rev string) string {
	return c.endpoint + "/api/models/" + repo + "/" + question + "/" + url.PathEscape(rev)
}

// resolve returns the address of a file.
func (c *Client) resolve(repo, commit, file string) string {
	parts := strings.Split(file, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return c.endpoint + "/" + repo + "/resolve/" + commit + "/" + strings.Join(parts, "/")
}

package buckettest

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"latentbeam/internal/storage/store/storetest"
)

// Behaviour is a deviation of an S3 service from what jobs rely on.
type Behaviour struct {
	Name string
	Lie  storetest.Lie                            // Honest: none
	Bend func(next http.Handler) http.HandlerFunc // nil: no deviation
}

// Behave makes an S3 server deviate until restore is called.
func (s *Server) Behave(b Behaviour) (restore func()) {
	before := s.Service
	s.Tell(b.Lie)
	if b.Bend != nil {
		s.Service = b.Bend(before)
	}
	return func() {
		s.Service = before
		s.Tell(storetest.Honest)
	}
}

// Behaviours returns the deviations of services, gateways and proxies that were observed or reported. other is the address of a
// server for redirects (Elsewhere).
func Behaviours(other string) []Behaviour {
	return []Behaviour{
		{Name: "as AWS"},
		{Name: "conditions of a PUT are ignored", Bend: without(http.MethodPut, "If-None-Match", "If-Match")},
		{Name: "If-None-Match is ignored", Bend: without(http.MethodPut, "If-None-Match")},
		{Name: "If-Match of a PUT is ignored", Bend: without(http.MethodPut, "If-Match")},
		{Name: "If-Match of a GET is ignored", Bend: without(http.MethodGet, "If-Match")}, // as Hugging Face documents for its buckets
		{Name: "412 for an absent key", Lie: storetest.RefusesNew},
		{Name: "501 for conditions", Bend: refuses(onCondition, 501, "NotImplemented")},
		{Name: "304 for a taken key", Bend: answersTaken(304)},
		{Name: "entity tags with -gzip", Lie: storetest.OtherTags},
		{Name: "no entity tags", Bend: answers(reads, func(a *httptest.ResponseRecorder) { a.Header().Del("Etag") })},
		{Name: "another region, 400", Bend: refuses(all, 400, "AuthorizationHeaderMalformed")},
		{Name: "another region, 301", Bend: refuses(all, 301, "PermanentRedirect")},
		{Name: "read-only", Bend: refuses(writes, 403, "AccessDenied")},
		{Name: "the clock is wrong", Bend: refuses(all, 403, "RequestTimeTooSkewed")},
		{Name: "credentials have ended", Bend: refuses(all, 400, "ExpiredToken")},
		{Name: "no right to delete", Bend: refuses(deletes, 403, "AccessDenied")},
		{Name: "403 for a missing key", Bend: answers(heads, func(a *httptest.ResponseRecorder) {
			if a.Code == http.StatusNotFound {
				a.Code = http.StatusForbidden
			}
		})},
		{Name: "listings are old", Bend: answers(isList, func(a *httptest.ResponseRecorder) {
			a.Body = bytes.NewBufferString("<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>")
		})},
		{Name: "listings have no end", Lie: storetest.EndlessPages},
		{Name: "reads have a flipped bit", Bend: answers(reads, func(a *httptest.ResponseRecorder) {
			if b := a.Body.Bytes(); len(b) > 0 {
				b[len(b)/2] ^= 4
			}
		})},
		{Name: "writes lose their end", Bend: shortens},
		{Name: "no ranges", Bend: without(http.MethodGet, "Range")},
		{Name: "GET is sent on by 307", Bend: sendsOn(307, other)},
		{Name: "GET is sent on by 302", Bend: sendsOn(302, other)},
		{Name: "503 without an end", Bend: refuses(all, 503, "SlowDown")},
		{Name: "the quota is used up", Bend: refuses(writes, 403, "QuotaExceeded")},
	}
}

// Elsewhere starts a second server with the content of this one, for reads without a signature: it refuses a request with one.
// It stops when the test ends.
func (s *Server) Elsewhere(t testing.TB) string {
	content := s.Service
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name := range r.Header {
			if lower := strings.ToLower(name); lower == "authorization" || strings.HasPrefix(lower, "x-amz-") {
				t.Errorf("another host got the header %s", name)
			}
		}
		content.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func all(*http.Request) bool { return true }

func heads(r *http.Request) bool { return r.Method == http.MethodHead }

func deletes(r *http.Request) bool { return r.Method == http.MethodDelete }

func writes(r *http.Request) bool { return r.Method == http.MethodPut || r.Method == http.MethodPost }

// reads reports whether a request reads an object or describes it.
func reads(r *http.Request) bool {
	return (r.Method == http.MethodGet || heads(r)) && strings.Count(strings.Trim(r.URL.Path, "/"), "/") > 0
}

func onCondition(r *http.Request) bool {
	return writes(r) && (r.Header.Get("If-None-Match") != "" || r.Header.Get("If-Match") != "")
}

// without removes headers from requests.
func without(method string, names ...string) func(http.Handler) http.HandlerFunc {
	return func(next http.Handler) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.Method == method {
				for _, name := range names {
					r.Header.Del(name)
				}
			}
			next.ServeHTTP(w, r)
		}
	}
}

// refuses answers some requests with an S3 error.
func refuses(which func(*http.Request) bool, status int, code string) func(http.Handler) http.HandlerFunc {
	return func(next http.Handler) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if !which(r) {
				next.ServeHTTP(w, r)
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "application/xml")
			w.Header().Set("X-Amz-Bucket-Region", "eu-west-1")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "<Error><Code>"+code+"</Code><Message>of the test</Message><Region>eu-west-1</Region></Error>")
		}
	}
}

// answers changes the answers to some requests.
func answers(which func(*http.Request) bool, change func(*httptest.ResponseRecorder)) func(http.Handler) http.HandlerFunc {
	return func(next http.Handler) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if !which(r) {
				next.ServeHTTP(w, r)
				return
			}
			a := httptest.NewRecorder()
			next.ServeHTTP(a, r)
			change(a)
			maps.Copy(w.Header(), a.Header())
			if r.Method != http.MethodHead {
				w.Header().Set("Content-Length", strconv.Itoa(a.Body.Len()))
			}
			w.WriteHeader(a.Code)
			_, _ = w.Write(a.Body.Bytes())
		}
	}
}

// answersTaken answers a write of a new object that exists with a status.
func answersTaken(status int) func(http.Handler) http.HandlerFunc {
	return answers(onCondition, func(a *httptest.ResponseRecorder) {
		if a.Code == http.StatusPreconditionFailed {
			a.Code, a.Body = status, new(bytes.Buffer)
		}
	})
}

// shortens drops the end of what is written.
func shortens(next http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut && r.ContentLength > 0 {
			body, _ := io.ReadAll(io.LimitReader(r.Body, r.ContentLength*3/4))
			_, _ = io.Copy(io.Discard, r.Body)
			for name := range r.Header {
				if strings.HasPrefix(name, "X-Amz-Content") || strings.HasPrefix(name, "X-Amz-Decoded") || name == "Content-Md5" ||
					name == "Content-Encoding" {
					r.Header.Del(name)
				}
			}
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			r.Header.Set("Content-Length", strconv.Itoa(len(body)))
		}
		next.ServeHTTP(w, r)
	}
}

// sendsOn answers a GET of an object with a redirect to another server.
func sendsOn(status int, other string) func(http.Handler) http.HandlerFunc {
	return func(next http.Handler) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet && reads(r) {
				http.Redirect(w, r, other+r.URL.EscapedPath()+"?signature=secret&until="+strconv.FormatInt(time.Now().Unix(), 10), status)
				return
			}
			next.ServeHTTP(w, r)
		}
	}
}

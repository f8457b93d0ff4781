package buckettest

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"

	"latentbeam/internal/storage/store/storetest"
)

// Tell makes a server's service tell a lie in all later requests; storetest.Honest stops it.
func (s *Server) Tell(lie storetest.Lie) { s.lie.Store(&lie) }

// liar is a service that can tell lies.
type liar struct {
	service http.Handler
	lie     *atomic.Pointer[storetest.Lie]
	pages   atomic.Int64
}

// The forms of versions and next pages in the services.
const (
	tagHeader = "Etag"
	otherTag  = "-gzip" // suffix that a server adds to the tag of compressed content
)

var (
	generations = regexp.MustCompile(`("generation": ?")(\d+)`)
	jsonStart   = regexp.MustCompile(`^\{`)
	lastPage    = regexp.MustCompile(`<IsTruncated>false</IsTruncated>`)
)

// ServeHTTP implements http.Handler.
func (l *liar) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	lie := l.lie.Load()
	if lie == nil || *lie == storetest.Honest {
		l.service.ServeHTTP(w, r)
		return
	}
	if *lie == storetest.RefusesNew && onlyNew(r) || *lie == storetest.OtherTags && strings.Contains(r.Header.Get("If-Match"), otherTag) {
		w.WriteHeader(http.StatusPreconditionFailed)
		return
	}
	if *lie == storetest.EndlessPages && isList(r) { // each page is the first one
		r = r.Clone(r.Context())
		query := r.URL.Query()
		query.Del("pageToken")
		query.Del("continuation-token")
		r.URL.RawQuery = query.Encode()
	}
	answer := httptest.NewRecorder()
	answer.Body = new(bytes.Buffer)
	l.service.ServeHTTP(answer, r)
	body := answer.Body.Bytes()
	switch {
	case *lie == storetest.OtherTags && (r.Method == http.MethodGet || r.Method == http.MethodHead):
		if tag, found := strings.CutSuffix(answer.Header().Get(tagHeader), `"`); found {
			answer.Header().Set(tagHeader, tag+otherTag+`"`)
		}
		body = generations.ReplaceAll(body, []byte("${1}9${2}"))
	case *lie == storetest.EndlessPages && isList(r):
		next := fmt.Sprintf("page-%d", l.pages.Add(1))
		body = lastPage.ReplaceAll(body, []byte("<IsTruncated>true</IsTruncated><NextContinuationToken>"+next+"</NextContinuationToken>"))
		body = jsonStart.ReplaceAll(body, []byte(`{"nextPageToken":"`+next+`",`))
	}
	maps.Copy(w.Header(), answer.Header())
	if r.Method != http.MethodHead { // for HEAD it is the size of the object
		w.Header().Del("Content-Length")
	}
	w.WriteHeader(answer.Code)
	_, _ = w.Write(body)
}

// onlyNew reports whether a request writes an object only if there is none.
func onlyNew(r *http.Request) bool {
	return r.Header.Get("If-None-Match") == "*" || r.URL.Query().Get("ifGenerationMatch") == "0"
}

// isList reports whether a request asks for a page of a listing.
func isList(r *http.Request) bool {
	return r.Method == http.MethodGet && (r.URL.Query().Has("list-type") || strings.HasSuffix(r.URL.Path, "/o"))
}

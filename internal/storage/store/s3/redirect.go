package s3

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	"latentbeam/schemas/objects"
)

// redirectsMax limits the redirects of one read.
const redirectsMax = 5

// redirected is a transport that follows redirects of reads. The S3 client does not follow them, because a signature is valid
// for one host. But some gateways answer a GET with a presigned address of the content on another host. The request to that
// host has neither the signature nor any other secret of this process.
type redirected struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t redirected) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := t.RoundTripper.RoundTrip(r)
	for n := 0; err == nil && elsewhere(r, answer); n++ {
		to, parseErr := answer.Request.URL.Parse(answer.Header.Get("Location"))
		_, _ = io.CopyN(io.Discard, answer.Body, 4<<10)
		answer.Body.Close()
		switch {
		case parseErr != nil || to.Host == "" || to.Scheme != "http" && to.Scheme != "https" || to.User != nil:
			return nil, &objects.Refusal{Status: answer.StatusCode, Code: "Redirect", Text: "to an address that cannot be used"}
		case r.URL.Scheme == "https" && to.Scheme != "https":
			return nil, &objects.Refusal{Status: answer.StatusCode, Code: "Redirect", Text: "away from https to " + to.Host}
		case n == redirectsMax:
			return nil, &objects.Refusal{Status: http.StatusLoopDetected, Code: "Redirect", Text: "too many redirects, the last to " + to.Host}
		}
		answer, err = t.RoundTripper.RoundTrip(read(r, to))
	}
	return answer, err
}

// elsewhere reports whether an answer redirects a read of an object. Status 301 concerns the region of a bucket instead.
func elsewhere(r *http.Request, answer *http.Response) bool {
	switch answer.StatusCode {
	case http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return (r.Method == http.MethodGet || r.Method == http.MethodHead) && answer.Header.Get("Location") != ""
	}
	return false
}

// read returns the request for the same bytes of the same version at another address.
func read(r *http.Request, to *url.URL) *http.Request {
	next := r.Clone(r.Context())
	next.URL, next.Host = to, to.Host
	for name := range next.Header {
		if lower := strings.ToLower(name); lower == "authorization" || strings.HasPrefix(lower, "x-amz-") || lower == "cookie" {
			next.Header.Del(name)
		}
	}
	return next
}

// refusal finds the answer of redirected in an error of the client.
func refusal(err error) *objects.Refusal {
	var f *objects.Refusal
	if errors.As(err, &f) {
		return f
	}
	return nil
}

package timestamp

import (
	"bytes"
	"context"
	"crypto/x509"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"

	rfc3161 "github.com/digitorus/timestamp"

	"latentbeam/internal/system/testaid"
	"latentbeam/schemas/fault"
)

// at returns an authority that is tried again without a pause.
func at(url string) *Authority {
	a := New(url)
	a.wait = func(context.Context, time.Duration) error { return nil }
	return a
}

func TestStamp(t *testing.T) {
	message := []byte("a signature")
	token, err := at(testaid.NewAuthority(t).URL).Stamp(t.Context(), message)
	if err != nil {
		t.Fatal(err)
	}
	read, err := Read(token, message)
	if err != nil || time.Since(read.Time) > time.Minute || !strings.Contains(read.Authority, "CN=Test Time Stamps") {
		t.Errorf("%+v, %v", read, err)
	}
	if _, err := Read(token, []byte("another")); err == nil || !strings.Contains(err.Error(), "something else") {
		t.Errorf("a time stamp of another message: %v", err)
	}
	for i := range token {
		bad := bytes.Clone(token)
		bad[i] ^= 1
		if got, err := Read(bad, message); err == nil && got != read {
			t.Errorf("bit 0 of byte %d is flipped, and the time stamp is read as %+v", i, got)
		}
	}
}

// TestAuthoritiesThatFail: the error and the number of attempts for each kind of wrong or missing answer.
func TestAuthoritiesThatFail(t *testing.T) {
	status := func(code int) func(http.ResponseWriter) bool {
		return func(w http.ResponseWriter) bool {
			w.WriteHeader(code)
			return true
		}
	}
	refusal, err := rfc3161.CreateErrorResponse(rfc3161.Rejection, rfc3161.TimeNotAvailable)
	if err != nil {
		t.Fatal(err)
	}
	write := func(data []byte) func(http.ResponseWriter) bool {
		return func(w http.ResponseWriter) bool {
			_, _ = w.Write(data)
			return true
		}
	}
	for name, c := range map[string]struct {
		uses   []x509.ExtKeyUsage
		lie    func(*rfc3161.Timestamp)
		answer func(http.ResponseWriter) bool
		want   string
		exit   int
		asked  int64
	}{
		"another message": {lie: func(s *rfc3161.Timestamp) { s.HashedMessage = make([]byte, 32) }, want: "something else", exit: 75, asked: 1},
		"another request": {lie: func(s *rfc3161.Timestamp) { s.Nonce = big.NewInt(7) }, want: "another request", exit: 75, asked: 1},
		"no nonce":        {lie: func(s *rfc3161.Timestamp) { s.Nonce = nil }, want: "another request", exit: 75, asked: 1},
		"no certificate":  {lie: func(s *rfc3161.Timestamp) { s.AddTSACertificate = false }, want: "certificate", exit: 75, asked: 1},
		"expired":         {lie: func(s *rfc3161.Timestamp) { s.Time = s.Time.Add(48 * time.Hour) }, want: "not valid at", exit: 75, asked: 1},
		"another use":     {uses: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning}, want: "not for time stamps", exit: 75, asked: 1},
		"refusal":         {answer: write(refusal), want: "rejected", exit: 75, asked: 1},
		"a web page":      {answer: write([]byte("<html>")), want: "asn1", exit: 75, asked: 1},
		"endless":         {answer: write(make([]byte, 3*MaxToken)), want: "more than", exit: 2, asked: 1},
		"busy":            {answer: status(503), want: "503 Service Unavailable (asked 5 times)", exit: 75, asked: tries},
		"not there":       {answer: status(404), want: "404 Not Found", exit: 2, asked: 1},
	} {
		authority := testaid.NewAuthority(t, c.uses...)
		authority.Lie, authority.Answer = c.lie, c.answer
		_, err := at(authority.URL).Stamp(t.Context(), []byte("a signature"))
		if err == nil || !strings.Contains(err.Error(), c.want) || fault.ExitCode(err) != c.exit || authority.Asked.Load() != c.asked {
			t.Errorf("%s: asked %d times: %v (exit %d)", name, authority.Asked.Load(), err, fault.ExitCode(err))
		}
	}
	gone := testaid.NewAuthority(t)
	gone.Close()
	if _, err := at(gone.URL).Stamp(t.Context(), nil); fault.ExitCode(err) != fault.ExitTryAgain || !strings.Contains(err.Error(), gone.URL) {
		t.Errorf("no server at the address: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	waiting := New(gone.URL)
	waiting.wait = func(ctx context.Context, d time.Duration) error {
		cancel()
		return sleep(ctx, time.Hour)
	}
	if _, err := waiting.Stamp(ctx, nil); fault.ExitCode(err) != 130 {
		t.Errorf("the context is cancelled while Stamp waits: %v", err)
	}
}

func TestCheckURL(t *testing.T) {
	for address, ok := range map[string]bool{"http://timestamp.example.com": true, "https://a.example/tsa?x=1": true, "": false,
		"timestamp.example.com": false, "ftp://a.example": false, "https://user:word@a.example": false, "file:///etc/passwd": false} {
		if err := CheckURL(address); (err == nil) != ok {
			t.Errorf("%q: %v", address, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	token, err := at(testaid.NewAuthority(f).URL).Stamp(f.Context(), []byte("a signature"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(token)
	f.Fuzz(func(_ *testing.T, token []byte) {
		_, _ = Read(token, []byte("a signature")) // it must not panic and must end
	})
}

package bucket

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"latentbeam/internal/system/testaid"
	"latentbeam/schemas/fault"
	"latentbeam/schemas/objects"
)

// answering is a service whose Stat answers as a function says.
type answering struct {
	objects.Service
	stat  func(key string) error
	calls atomic.Int64
}

func (a *answering) Stat(_ context.Context, key string) (objects.Object, error) {
	a.calls.Add(1)
	return objects.Object{Key: key, Size: 1}, a.stat(key)
}

func (a *answering) Read(context.Context, objects.Object, int64, int64) (io.ReadCloser, error) {
	return nil, errors.New("not asked")
}

// dialled is the error of a connection that was never made, as net/http returns it.
func dialled(cause error) error {
	return &url.Error{Op: "Get", URL: "https://h/x", Err: &net.OpError{Op: "dial", Net: "tcp", Err: cause}}
}

var (
	errNone    = dialled(&net.DNSError{Err: "no such host", Name: "h", IsNotFound: true})
	errRefused = dialled(syscall.ECONNREFUSED)
)

// find asks for a key of a host and returns the error, the requests it took and the time.
func find(t *testing.T, b *Bucket, a *answering, key string) (error, int, time.Duration) {
	t.Helper()
	calls, began := a.calls.Load(), time.Now()
	_, err := b.Find(t.Context(), key)
	return err, int(a.calls.Load() - calls), time.Since(began)
}

// TestNoSuchHost: a name that no server has is settled with one request, as a mistake of whoever wrote the address.
func TestNoSuchHost(t *testing.T) {
	text := testaid.Log(t)
	synctest.Test(t, func(t *testing.T) {
		a := &answering{stat: func(string) error { return errNone }}
		r := &Reach{}
		b := New(a, Address{Scheme: "https", Bucket: "h"}, Options{Reach: r})
		for i, want := range []int{1, 0} {
			err, calls, took := find(t, b, a, "x.png")
			if calls != want || took > 0 || fault.ExitCode(err) != fault.ExitUsage || errors.Is(err, ErrUnreachable) {
				t.Errorf("request %d: %d tries in %v, %v", i, calls, took, err)
			}
			if !strings.Contains(err.Error(), "open https://h/x.png: ") || !strings.Contains(err.Error(), "no such host") {
				t.Errorf("the message does not say what and why: %v", err)
			}
		}
		if r.Lost() != nil {
			t.Error("a host that does not exist counts as one that does not answer")
		}
		r.Renew()
		if _, calls, _ := find(t, b, a, "x.png"); calls != 1 {
			t.Error("another run does not ask")
		}
	})
	if n := strings.Count(text.String(), "names no host"); n != 2 {
		t.Errorf("told %d times in two runs:\n%s", n, text)
	}
}

// TestRefusedHost: three tries in ten seconds, then the host is down for the run, and another run asks again.
func TestRefusedHost(t *testing.T) {
	text := testaid.Log(t)
	synctest.Test(t, func(t *testing.T) {
		refused := true
		a := &answering{stat: func(string) error {
			if refused {
				return errRefused
			}
			return nil
		}}
		r := &Reach{}
		b := New(a, Address{Scheme: "http", Bucket: "h"}, Options{Reach: r})
		err, calls, took := find(t, b, a, "x.png")
		if calls != strangerAttempts || took > strangerBudget || !errors.Is(err, ErrUnreachable) || fault.ExitCode(err) != fault.ExitTryAgain {
			t.Errorf("%d tries in %v, %v", calls, took, err)
		}
		if err, calls, took := find(t, b, a, "y.png"); calls != 0 || took != 0 || !errors.Is(err, ErrUnreachable) {
			t.Errorf("the host is asked again in the same run: %d tries in %v, %v", calls, took, err)
		}
		refused = false
		r.Renew()
		if err, _, _ := find(t, b, a, "y.png"); err != nil || !r.Answered() || r.Lost() != nil {
			t.Errorf("another run: %v", err)
		}
		// It has answered, so it may be back: as patient as ever.
		refused = true
		if err, calls, took := find(t, b, a, "z.png"); calls <= strangerAttempts || took < time.Minute || !errors.Is(err, ErrUnreachable) {
			t.Errorf("a host that has answered: %d tries in %v, %v", calls, took, err)
		}
	})
	if !strings.Contains(text.String(), "a host does not answer") || !strings.Contains(text.String(), "connection refused") {
		t.Errorf("not told:\n%s", text)
	}
}

// TestOneObjectFails: an object that its host never delivers does not bring down the host.
func TestOneObjectFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &answering{stat: func(key string) error {
			if key == "bad" {
				return &objects.Refusal{Status: 500}
			}
			return fs.ErrNotExist
		}}
		r := &Reach{}
		b := New(a, Address{Scheme: "http", Bucket: "h"}, Options{Reach: r})
		go func() {
			for range 100 {
				time.Sleep(time.Second)
				_, _ = b.Find(t.Context(), "good")
			}
		}()
		err, _, _ := find(t, b, a, "bad")
		if !errors.Is(err, ErrUnreachable) || r.Lost() != nil {
			t.Errorf("%v, lost %v", err, r.Lost())
		}
		if text := err.Error(); !strings.Contains(text, "answers with errors") || strings.Contains(text, "does not answer") {
			t.Errorf("got %q, want a text that says that the host answers with errors", text)
		}
		synctest.Wait()
		if err, calls, _ := find(t, b, a, "bad"); calls != 0 || !errors.Is(err, ErrUnreachable) {
			t.Errorf("asked again: %d times, %v", calls, err)
		}
		if err, calls, _ := find(t, b, a, "good"); calls != 1 || !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the others: %d tries, %v", calls, err)
		}
		time.Sleep(time.Hour)
	})
}

// TestObjectsFailInARow: objects that a host never delivers do not bring down the host until there are more than strikesMax.
func TestObjectsFailInARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &answering{stat: func(key string) error {
			if strings.HasPrefix(key, "bad") {
				return io.ErrUnexpectedEOF
			}
			return fs.ErrNotExist
		}}
		r := &Reach{}
		b := New(a, Address{Scheme: "http", Bucket: "h"}, Options{Reach: r})
		for _, key := range []string{"bad1", "good", "bad2", "bad3", "good"} {
			err, calls, _ := find(t, b, a, key)
			if calls == 0 || errors.Is(err, ErrUnreachable) != strings.HasPrefix(key, "bad") || r.Lost() != nil {
				t.Errorf("%s: asked %d times, %v, lost %v", key, calls, err, r.Lost())
			}
		}
		if err, calls, _ := find(t, b, a, "bad4"); calls == 0 || !errors.Is(err, ErrUnreachable) || r.Lost() == nil {
			t.Errorf("one too many: asked %d times, %v, lost %v", calls, err, r.Lost())
		}
		if err, calls, _ := find(t, b, a, "good"); calls != 0 || !errors.Is(err, ErrUnreachable) {
			t.Errorf("a lost host: asked %d times, %v", calls, err)
		}
	})
}

// TestWaitIsTold: whoever waits for an input or an output reads so after ten seconds, then every minute, once for all requests.
func TestWaitIsTold(t *testing.T) {
	text := testaid.Log(t)
	synctest.Test(t, func(t *testing.T) {
		a := &answering{stat: func(string) error { return &objects.Refusal{Status: 503, Text: "slow down"} }}
		b := New(a, Address{Scheme: "gs", Bucket: "b"}, Options{})
		ctx := t.Context()
		for range 5 {
			go func() { _, _ = b.Stat(ctx, "x") }()
		}
		time.Sleep(9 * time.Second)
		synctest.Wait()
		if text.String() != "" {
			t.Errorf("told too early: %s", text)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n := strings.Count(text.String(), "waiting for an answer"); n != 1 || !strings.Contains(text.String(), "gs://b/x") ||
			!strings.Contains(text.String(), "slow down") {
			t.Errorf("told %d times after 11 s:\n%s", n, text)
		}
		time.Sleep(time.Hour)
		if n := strings.Count(text.String(), "waiting for an answer"); n < 2 || n > 4 {
			t.Errorf("told %d times in 3 minutes:\n%s", n, text)
		}
	})
}

package bucket

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"latentbeam/schemas/fault"
	"latentbeam/schemas/objects"
)

// ErrUnreachable says that the host of an input is given up for the rest of the run: it does not answer, or it fails every
// request. errors.Is finds it in errors of buckets that were opened with Options.Reach.
var ErrUnreachable = errors.New("the host does not answer")

// ErrNoHost says that the host in an address cannot be used: the name does not exist, or another host answers. errors.Is finds
// it in errors of buckets that were opened with Options.Reach.
var ErrNoHost = errors.New("there is no such host")

// Retry limits if connections are refused and the host has not answered in this run.
const (
	strangerAttempts = 3
	strangerPause    = 2 * time.Second
	strangerBudget   = 10 * time.Second
)

// strikesMax bounds how long a host that fails every request can delay a run.
const strikesMax = 3

// Reach is what one run knows about the host of its inputs. It limits how long the run waits for that host. A host that does
// not exist is given up at once; a host that refuses connections and has never answered, after three attempts; any other host
// after the attempts of stores. Requests to a host that was given up fail without being sent. Reach is safe for concurrent use.
type Reach struct {
	mu       sync.Mutex
	answered bool             // the host answered a request of this run with anything
	settled  time.Time        // time of the last answer that would not change on a retry
	lost     error            // why the host is given up; nil: it is not
	objects  map[string]error // single keys that are given up
	strikes  int              // keys that were given up while the host answered nothing else
}

// Renew starts a run: the host is tried again.
func (r *Reach) Renew() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answered, r.settled, r.strikes, r.lost, r.objects = false, time.Time{}, 0, nil, nil
}

// Lost returns why the host was given up in this run. It is nil if it was not given up or does not exist.
func (r *Reach) Lost() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if errors.Is(r.lost, ErrUnreachable) {
		return r.lost
	}
	return nil
}

// Answered reports whether the host has answered a request of this run.
func (r *Reach) Answered() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.answered
}

// givenUp returns why requests for key are not sent; nil: they are. A nil Reach gives nothing up.
func (r *Reach) givenUp(key string) error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lost != nil {
		return r.lost
	}
	return r.objects[key]
}

// record records the answer of a service at a time.
func (r *Reach) record(err error, now time.Time) {
	var f *objects.Refusal
	if r == nil || !settled(err) && !errors.As(err, &f) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answered = true
	if settled(err) {
		r.settled = now
	}
}

// giveUp records that the last attempt failed with err and returns the error of the request. Only key is given up if the host has
// answered other requests since began, or if the host can be reached and at most strikesMax keys were given up in this way.
func (r *Reach) giveUp(host, key string, began time.Time, err error) error {
	if r == nil {
		return err
	}
	away := unconnected(err)
	told := "a host does not answer: what needs it is left to the next run"
	if f := new(objects.Refusal); errors.As(err, &f) {
		told = "a host answers every request with an error: what needs it is left to the next run"
		err = &failingHostError{err}
	} else {
		err = fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	alone := r.settled.After(began)
	if !alone && !away && key != "" && r.strikes < strikesMax {
		alone, r.strikes = true, r.strikes+1
	}
	if alone {
		if r.objects == nil {
			r.objects = map[string]error{}
		}
		r.objects[key] = err
		return err
	}
	if r.lost == nil {
		r.lost = err
		slog.Warn(told, "host", host, "error", Redact(err.Error()))
	}
	return r.lost
}

// noHost records that the host does not exist.
func (r *Reach) noHost(host string, err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lost == nil {
		r.lost = &noHostError{err}
		slog.Warn("an address names no host that can be used: what needs it fails", "host", host, "error", Redact(err.Error()))
	}
	return r.lost
}

// limits returns the number of attempts, the first pause and the time limit for a request that failed with err.
func (r *Reach) limits(err error) (most int, pause, time time.Duration) {
	if r != nil && unconnected(err) && !r.Answered() {
		return strangerAttempts, strangerPause, strangerBudget
	}
	return attempts, firstPause, budget
}

// noHostError is the error for an address whose host does not exist or is another one.
type noHostError struct{ error }

// Unwrap returns the cause.
func (e *noHostError) Unwrap() error { return e.error }

// failingHostError is an ErrUnreachable for a host that answers, but with errors that may pass, such as HTTP status 500.
type failingHostError struct{ error }

// Error says that the host answered, so that nobody looks for a fault of the network.
func (e *failingHostError) Error() string { return "the host answers with errors: " + e.error.Error() }

// Unwrap returns ErrUnreachable and the cause.
func (e *failingHostError) Unwrap() []error { return []error{ErrUnreachable, e.error} }

// nowhere reports whether err means that retrying is useless: no such host name, a certificate for another host, or no TLS.
func nowhere(err error) bool {
	var name *net.DNSError
	var certificate *tls.CertificateVerificationError
	var proxy *net.OpError
	if errors.As(err, &proxy) && proxy.Op == "proxyconnect" {
		return false // it is the name of the proxy
	}
	return errors.As(err, &name) && name.IsNotFound || errors.As(err, &certificate) || errors.Is(err, http.ErrSchemeMismatch)
}

// unconnected reports whether err means that no connection was made.
func unconnected(err error) bool {
	var name *net.DNSError
	var op *net.OpError
	return errors.As(err, &name) || errors.As(err, &op) && (op.Op == "dial" || op.Op == "proxyconnect")
}

// Times after which the user is told that a request waits.
const (
	quietTime  = 10 * time.Second
	repeatTime = time.Minute
)

// waiting tells the user that a request waits: after ten seconds, then every minute, once for all requests of a bucket.
type waiting struct {
	mu    sync.Mutex
	last  error // error of the last attempt
	tries int
	timer *time.Timer
}

// wait starts to measure the time of a request for the object called name, or for the whole bucket if name is "". The caller must call stop.
func (b *Bucket) wait(ctx context.Context, name string) *waiting {
	w := &waiting{}
	began := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(quietTime, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if ctx.Err() != nil {
			return
		}
		w.timer.Reset(repeatTime)
		now := time.Now()
		if before := b.told.Load(); now.UnixNano()-before < int64(repeatTime) || !b.told.CompareAndSwap(before, now.UnixNano()) {
			return
		}
		about := []any{"for", Redact(b.address(name), b.secrets...), "since", now.Sub(began).Round(time.Second), "tries", w.tries + 1}
		if w.last != nil {
			about = append(about, "last error", Redact(w.last.Error(), b.secrets...))
		}
		slog.WarnContext(ctx, "waiting for an answer", about...)
	})
	return w
}

// tried records the end of an attempt.
func (w *waiting) tried(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last, w.tries = err, w.tries+1
}

func (w *waiting) stop() { w.timer.Stop() }

// unreachable returns the error for the caller if a host was given up.
func (b *Bucket) unreachable(what, where string, err error) error {
	out := &failure{text: fmt.Sprintf("%s %s: %s", what, Redact(where), Redact(err.Error(), b.secrets...))}
	var none *noHostError
	if errors.As(err, &none) {
		out.text, out.is = out.text+"; mend the address", ErrNoHost
		return fault.Usage(out)
	}
	out.is = ErrUnreachable
	return fault.TryAgain(out)
}

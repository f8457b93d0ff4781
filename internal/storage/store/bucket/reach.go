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
)

// ErrUnreachable says that the host of an input is given up for the rest of the run: nothing answers there, or it fails
// every request. errors.Is finds it in errors of buckets that were opened with Options.Reach.
var ErrUnreachable = errors.New("the host does not answer")

// ErrNoHost says that an address names no host that can be used: none has the name, or another one answers. errors.Is finds it
// in errors of buckets that were opened with Options.Reach.
var ErrNoHost = errors.New("there is no such host")

// Limits of trying again where nothing accepts connections and the host has not answered in this run.
const (
	strangerAttempts = 3
	strangerPause    = 2 * time.Second
	strangerBudget   = 10 * time.Second
)

// Reach is what one run knows of the host of its inputs. It bounds how long the run waits for that host: a host that does not
// exist is given up at once, one that refuses connections and has never answered after three tries, any other after the
// attempts of stores. Requests to a host that was given up fail without being sent. Safe for concurrent use.
type Reach struct {
	mu       sync.Mutex
	answered bool             // a request of this run, whatever the answer
	settled  time.Time        // of the last answer that trying again does not change
	lost     error            // why the host is given up; nil: it is not
	objects  map[string]error // keys that alone are given up
}

// Renew starts a run: the host is asked again.
func (r *Reach) Renew() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answered, r.settled, r.lost, r.objects = false, time.Time{}, nil, nil
}

// Lost returns why the host was given up in this run, nil if it was not or does not exist.
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

// givenUp returns why key is not asked for; nil: it is. A nil Reach gives nothing up.
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
	var f *Refusal
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

// giveUp records that trying has ended with err and returns the error of the request. If the host has answered other requests
// since began, only key is given up.
func (r *Reach) giveUp(host, key string, began time.Time, err error) error {
	if r == nil {
		return err
	}
	err = fmt.Errorf("%w: %w", ErrUnreachable, err)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.settled.After(began) {
		if r.objects == nil {
			r.objects = map[string]error{}
		}
		r.objects[key] = err
		return err
	}
	if r.lost == nil {
		r.lost = err
		slog.Warn("a host does not answer: what needs it is left to the next run", "host", host, "error", Redact(err.Error()))
	}
	return r.lost
}

// noHost records that there is no host to wait for.
func (r *Reach) noHost(host string, err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lost == nil {
		r.lost = &noHostError{err}
		slog.Warn("an address names no host that can be used: what needs it fails", "host", host, "error", Redact(err.Error()))
	}
	return r.lost
}

// limits are the attempts, the first pause and the time for a request that err has ended.
func (r *Reach) limits(err error) (most int, pause, time time.Duration) {
	if r != nil && unconnected(err) && !r.Answered() {
		return strangerAttempts, strangerPause, strangerBudget
	}
	return attempts, firstPause, budget
}

// noHostError is the error of an address whose host does not exist or is not the one that the address names.
type noHostError struct{ error }

// Unwrap returns the cause.
func (e *noHostError) Unwrap() error { return e.error }

// nowhere reports whether err says that trying again is in vain: no host of that name, a certificate for another one, or no TLS.
func nowhere(err error) bool {
	var name *net.DNSError
	var certificate *tls.CertificateVerificationError
	var proxy *net.OpError
	if errors.As(err, &proxy) && proxy.Op == "proxyconnect" {
		return false // the name is the proxy's
	}
	return errors.As(err, &name) && name.IsNotFound || errors.As(err, &certificate) || errors.Is(err, http.ErrSchemeMismatch)
}

// unconnected reports whether err is of a connection that was never made.
func unconnected(err error) bool {
	var name *net.DNSError
	var op *net.OpError
	return errors.As(err, &name) || errors.As(err, &op) && (op.Op == "dial" || op.Op == "proxyconnect")
}

// Times after which a user is told that a request waits.
const (
	quietTime  = 10 * time.Second
	repeatTime = time.Minute
)

// waiting tells the user that a request waits: after ten seconds, then every minute, for all requests of a bucket together.
type waiting struct {
	mu    sync.Mutex
	last  error // that a try has ended with
	tries int
	timer *time.Timer
}

// wait starts to count the time of a request. stop ends it.
func (b *Bucket) wait(ctx context.Context) *waiting {
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
		about := []any{"for", b.url, "since", now.Sub(began).Round(time.Second), "tries", w.tries + 1}
		if w.last != nil {
			about = append(about, "last error", Redact(w.last.Error(), b.secrets...))
		}
		slog.WarnContext(ctx, "waiting for an answer", about...)
	})
	return w
}

// tried records the end of a try.
func (w *waiting) tried(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last, w.tries = err, w.tries+1
}

func (w *waiting) stop() { w.timer.Stop() }

// unreachable is the error that a caller gets of a host that was given up.
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

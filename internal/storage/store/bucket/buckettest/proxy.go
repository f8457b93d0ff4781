package buckettest

import (
	"bytes"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"time"
)

// Faults describes what a proxy does to requests.
type Faults struct {
	Rate float64       // share of requests with a fault
	Seed uint64        // seed of the choice
	Skew time.Duration // error of the server's clock
	// Only selects the requests that may meet a fault; nil: all.
	Only func(r *http.Request) bool
	Kind string // one of Kinds; empty: all of them
}

// Kinds are the names of the faults.
var Kinds = []string{"429", "500", "503", "cut", "lost", "half", "slow"}

// Proxy forwards requests from a client to a service.
type Proxy struct {
	Service  http.Handler
	Requests atomic.Int64
	Met      sync.Map // *atomic.Int64 by kind of fault

	working atomic.Int64 // number of running requests
	last    atomic.Int64 // end of the last request, in nanoseconds since 1970

	mu     sync.Mutex
	faults Faults
	rng    *rand.Rand
}

// Set sets the faults for later requests.
func (p *Proxy) Set(f Faults) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults, p.rng = f, rand.New(rand.NewPCG(f.Seed, 7))
}

// Count returns how many requests met faults of a kind.
func (p *Proxy) Count(kind string) int64 {
	n, _ := p.Met.LoadOrStore(kind, new(atomic.Int64))
	return n.(*atomic.Int64).Load()
}

func (p *Proxy) pick(r *http.Request) (kind string, skew time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.faults
	if p.rng == nil || f.Only != nil && !f.Only(r) || p.rng.Float64() >= f.Rate {
		return "", f.Skew
	}
	kind = f.Kind
	if kind == "" {
		kind = Kinds[p.rng.IntN(len(Kinds))]
	}
	n, _ := p.Met.LoadOrStore(kind, new(atomic.Int64))
	n.(*atomic.Int64).Add(1)
	return kind, f.Skew
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.Requests.Add(1)
	p.working.Add(1)
	defer func() {
		p.last.Store(time.Now().UnixNano())
		p.working.Add(-1)
	}()
	kind, skew := p.pick(r)
	switch kind {
	case "429", "500", "503":
		_, _ = io.Copy(io.Discard, r.Body)
		status := map[string]int{"429": 429, "500": 500, "503": 503}[kind]
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "a fault of the test")
		return
	case "cut": // in the middle of the body
		_, _ = io.CopyN(io.Discard, r.Body, 10_000)
		panic(http.ErrAbortHandler)
	}
	answer := httptest.NewRecorder()
	answer.Body = new(bytes.Buffer)
	p.Service.ServeHTTP(answer, r)
	if kind == "lost" {
		panic(http.ErrAbortHandler)
	}
	maps.Copy(w.Header(), answer.Header())
	if skew != 0 {
		for _, name := range []string{"Date", "Last-Modified"} {
			w.Header().Set(name, time.Now().Add(skew).UTC().Format(http.TimeFormat))
		}
	}
	w.WriteHeader(answer.Code)
	body := answer.Body.Bytes()
	if kind == "half" {
		_, _ = w.Write(body[:len(body)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	if kind == "slow" {
		n := len(body) / 2
		_, _ = w.Write(body[:n])
		_ = http.NewResponseController(w).Flush()
		time.Sleep(5 * time.Millisecond)
		body = body[n:]
	}
	_, _ = w.Write(body)
}

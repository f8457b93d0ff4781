package storetest

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"latentbeam/internal/storage/store"
	"latentbeam/internal/system/testaid"
	"latentbeam/schemas/fault"
)

// HistoriesEnv sets how many histories a test records; the default is the test's own number.
const HistoriesEnv = "LATENTBEAM_HISTORIES"

// Sizes of a history.
const (
	historyClients = 4
	historySteps   = 14 // for each client
	historyKeys    = 5
	checkTime      = 20 * time.Second
)

// Histories records the answers of stores to concurrent calls. Porcupine then searches a sequential order of the calls that
// explains all answers (linearizability): of puts and reads of write-once names, and of a lock that is acquired, refused,
// released, and left by dead processes. about describes the conditions, for the test's log.
func Histories(t *testing.T, o Output, usual int, about string) {
	n := testaid.Count(t, HistoriesEnv, usual)
	operations := 0
	for seed := range n {
		calls, err := TryHistory(t, o, uint64(seed))
		if operations += calls; err != nil {
			t.Fatalf("history %d: %v", seed, err)
		}
	}
	t.Logf("P8: %d histories of %d calls by %d stores at once%s: each has an order that explains all answers", n, operations,
		historyClients, about)
}

// TryHistory records one history. The error is the error of a call, or says that no order explains the answers.
func TryHistory(t testing.TB, o Output, seed uint64) (calls int, err error) {
	law := Law{"a history", func(e *Env) error {
		h, err := e.history(seed)
		calls = len(h.puts) + len(h.locks)
		return errors.Join(h.check(o.Lossy), err)
	}}
	return calls, law.Try(t, o)
}

// history is the calls and answers of several clients.
type history struct {
	mu          sync.Mutex
	puts, locks []porcupine.Operation
	clock       atomic.Int64 // counts calls and returns
}

// Calls and answers of clients. The value of a read is "" if there is no object; other is "" if no holder is named.
type (
	putCall  struct{ key, value string }
	readCall struct{ key string }
	lockCall struct {
		what  string // acquire, release, die
		owner string
	}
	putAnswer  int
	lockAnswer struct {
		taken bool
		by    string // the holder
	}
)

// The answers to a put.
const (
	published putAnswer = iota
	conflict
	unknown
)

// recordCall records a call that started at began and ends now.
func (h *history) recordCall(into *[]porcupine.Operation, client int, began int64, in, out any) {
	h.record(into, client, began, h.clock.Add(1), in, out)
}

// pending records a call whose effect is unknown: it may or may not have happened, or still happen.
func (h *history) pending(into *[]porcupine.Operation, client int, began int64, in, out any) {
	h.record(into, client, began, math.MaxInt64, in, out)
}

func (h *history) record(into *[]porcupine.Operation, client int, began, ended int64, in, out any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	*into = append(*into, porcupine.Operation{ClientId: client, Input: in, Call: began, Output: out, Return: ended})
}

// check returns an error if no order explains a history. If requests can hang for longer than a lease, a process may have had
// and lost the lock without knowing either; then locks are not checked.
func (h *history) check(lossy bool) error {
	if lossy {
		h.locks = nil
	}
	var wrong []error
	for what, one := range map[string]struct {
		model porcupine.Model
		calls []porcupine.Operation
	}{"names that are written once": {onceModel, h.puts}, "the lock": {lockModel, h.locks}} {
		if r := porcupine.CheckOperationsTimeout(one.model, one.calls, checkTime); r != porcupine.Ok {
			wrong = append(wrong, fmt.Errorf("%s: %s after %d calls", what, r, len(one.calls)))
		}
	}
	return errors.Join(wrong...)
}

// onceModel models a set of write-once names.
var onceModel = porcupine.Model{
	Partition: func(all []porcupine.Operation) (parts [][]porcupine.Operation) {
		by := map[string][]porcupine.Operation{}
		for _, o := range all {
			key := ""
			switch in := o.Input.(type) {
			case putCall:
				key = in.key
			case readCall:
				key = in.key
			}
			by[key] = append(by[key], o)
		}
		for _, part := range by {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() any { return "" },
	Step: func(state, in, out any) (bool, any) {
		there := state.(string)
		switch in := in.(type) {
		case putCall:
			switch out.(putAnswer) {
			case published:
				return there == "", in.value
			case conflict:
				return there != "", there
			}
			if there == "" {
				return true, in.value
			}
			return true, there
		default:
			return out.(string) == there, there
		}
	},
}

// holder is the state of a lock.
type holder struct {
	owner string // "": no one
	dead  bool
}

// lockModel models a lock.
var lockModel = porcupine.Model{
	Init: func() any { return holder{} },
	Step: func(state, in, out any) (bool, any) {
		has, call := state.(holder), in.(lockCall)
		switch call.what {
		case "release":
			return has.owner == call.owner, holder{}
		case "die":
			return has.owner == call.owner, holder{call.owner, true}
		}
		answer := out.(lockAnswer)
		if answer.taken {
			return has.owner == "" || has.dead, holder{owner: call.owner}
		}
		return has.owner != "" && (answer.by == "" || answer.by == has.owner), has
	},
}

// client is a store that takes part in a history.
type client struct {
	*Env
	*history
	id      int
	rng     *rand.Rand
	store   store.Store
	owner   string // owner as which it holds the lock; "" without it
	release func()
	taken   int
}

// history lets clients make concurrent calls.
func (e *Env) history(seed uint64) (*history, error) {
	h := &history{}
	errs := make([]error, historyClients)
	clients := make([]*client, historyClients)
	for i := range clients {
		clients[i] = &client{Env: e, history: h, id: i, rng: rand.New(rand.NewPCG(seed, uint64(i))), store: e.open()}
	}
	var all sync.WaitGroup
	for i, c := range clients {
		all.Go(func() {
			for step := 0; step < historySteps && errs[i] == nil; step++ {
				runtime.Gosched() // a store in memory answers so fast that calls would never overlap
				errs[i] = c.step(fmt.Sprintf("h%d/%d", seed, c.rng.IntN(historyKeys)), fmt.Sprintf("value %d of %d", step, i))
			}
			if c.owner != "" {
				c.free("release", c.release)
			}
		})
	}
	all.Wait()
	return h, errors.Join(errs...)
}

// step makes one call.
func (c *client) step(key, value string) error {
	began := c.clock.Add(1)
	switch c.rng.IntN(4) {
	case 0:
		err := c.store.Put(c.ctx, objects(key, value)...)
		switch {
		case err == nil:
			c.recordCall(&c.puts, c.id, began, putCall{key, value}, published)
		case errors.Is(err, store.ErrConflict):
			c.recordCall(&c.puts, c.id, began, putCall{key, value}, conflict)
		case c.timedOut(err):
			c.pending(&c.puts, c.id, began, putCall{key, value}, unknown)
		default:
			return fmt.Errorf("put: %w", err)
		}
	case 1:
		got, err := store.ReadFile(c.ctx, c.store, key)
		if c.timedOut(err) {
			return nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("read: %w", err)
		}
		c.recordCall(&c.puts, c.id, began, readCall{key}, string(got))
	default:
		return c.lockStep(began)
	}
	return nil
}

// timedOut reports whether a service did not answer in time, which can happen if requests hang.
func (c *client) timedOut(err error) bool {
	return c.Lossy && err != nil && fault.ExitCode(err) == fault.ExitTryAgain
}

// lockStep acquires the lock, releases it, or dies holding it.
func (c *client) lockStep(began int64) error {
	if c.owner != "" {
		if c.Die == nil || c.rng.IntN(3) > 0 {
			c.free("release", c.release)
			return nil
		}
		dead := c.store
		c.free("die", func() { c.Die(dead) })
		s, err := c.Open(c.ctx)
		c.store = s
		return err
	}
	c.taken++
	owner := fmt.Sprintf("client %d, time %d", c.id, c.taken)
	release, err := c.store.Lock(c.ctx, ".history", owner)
	var locked *store.LockedError
	switch {
	case err == nil:
		c.owner, c.release = owner, release
		c.recordCall(&c.locks, c.id, began, lockCall{"take", owner}, lockAnswer{taken: true})
	case errors.As(err, &locked):
		by := locked.Owner.Name
		if !c.Leases { // a system lock has its owner written after locking
			by = ""
		}
		c.recordCall(&c.locks, c.id, began, lockCall{"take", owner}, lockAnswer{by: by})
	case c.timedOut(err):
	default:
		return fmt.Errorf("lock: %w", err)
	}
	return nil
}

// free records that this client no longer has the lock.
func (c *client) free(how string, end func()) {
	began := c.clock.Add(1)
	end()
	c.recordCall(&c.locks, c.id, began, lockCall{how, c.owner}, nil)
	c.owner, c.release = "", nil
}

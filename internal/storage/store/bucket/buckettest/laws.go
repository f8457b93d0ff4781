package buckettest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"latentbeam/internal/storage/store"
	"latentbeam/internal/storage/store/bucket"
	"latentbeam/internal/storage/store/storetest"
)

// Opener opens a store on a server.
type Opener func(ctx context.Context, prefix string, o bucket.Options) (*bucket.Bucket, error)

var outputs atomic.Int64

// Output returns a new output on a server, for storetest.
func Output(server *Server, open Opener) storetest.Output {
	clock, prefix := NewClock(), fmt.Sprintf("jobs/out %d", outputs.Add(1))
	var mortals sync.Map
	return storetest.Output{
		Open: func(ctx context.Context) (store.Store, error) {
			mortal := &Mortal{Clock: clock}
			b, err := open(ctx, prefix, bucket.Options{Clock: mortal})
			if err != nil {
				return nil, err
			}
			mortals.Store(b, mortal)
			return b, nil
		},
		Die: func(s store.Store) {
			mortal, _ := mortals.Load(s)
			server.quiet() // first wait for other requests of the dead store
			mortal.(*Mortal).Die()
		},
		Leases: true,
		Tell:   server.Tell,
	}
}

// Laws checks the rules of stores on a server with faults.
func Laws(t *testing.T, server *Server, open Opener) {
	server.Use(t)
	server.Set(disturbed)
	defer server.Set(Faults{})
	storetest.Run(t, func(testing.TB) storetest.Output { return Output(server, open) })
	met(t, server)
	t.Logf("P8: every law of a store holds in %d requests, of which about one in seven was refused, cut, lost, halved "+
		"or slow", server.Requests.Load())
}

// LawsUndisturbed checks the rules of stores on a server without faults.
func LawsUndisturbed(t *testing.T, server *Server, open Opener) {
	server.Use(t)
	storetest.Run(t, func(testing.TB) storetest.Output { return Output(server, open) })
}

// disturbed are the faults of a bad network, and a server with a wrong clock.
var disturbed = Faults{Rate: 0.15, Seed: 1, Skew: 3 * time.Hour}

// met reports kinds of faults that no request has met.
func met(t *testing.T, server *Server) {
	for _, kind := range Kinds {
		t.Logf("%d requests met %q", server.Count(kind), kind)
		if server.Count(kind) == 0 {
			t.Errorf("no request met %q", kind)
		}
	}
}

// historiesUsual is the default number of histories that a test records.
const historiesUsual = 6

// Histories records histories of stores on a server with faults.
func Histories(t *testing.T, server *Server, open Opener) {
	server.Use(t)
	server.Set(disturbed)
	storetest.Histories(t, Output(server, open), historiesUsual, ", with all faults of a network")
}

// Schedules tries many random sequences of calls on a server with faults.
func Schedules(t *testing.T, server *Server, open Opener) {
	server.Use(t)
	server.Set(disturbed)
	storetest.Schedules(t, Output(server, open), ", with all faults of a network")
	met(t, server)
	t.Logf("%d requests", server.Requests.Load())
}

package simulator

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"latentbeam/internal/storage/store"
	"latentbeam/internal/storage/store/bucket"
	"latentbeam/internal/storage/store/storetest"
	"latentbeam/schemas/objects"
)

// TestHistories: the answers of processes that put and read names of one bucket at the same time, where every seventh request
// fails, is not acknowledged or hangs, and processes die, have an order that explains them.
func TestHistories(t *testing.T) {
	const histories = 20
	for seed := range uint64(histories) {
		synctest.Test(t, func(t *testing.T) {
			calls, err := storetest.TryHistory(t, processes(seed, func(d *disk) objects.Service { return d }), seed)
			if err != nil {
				t.Errorf("history %d of %d calls: %v", seed, calls, err)
			}
		})
	}
}

// TestHistoriesFindBlindWrites: a bucket that looks at no version has histories that no order explains.
func TestHistoriesFindBlindWrites(t *testing.T) {
	const most = 10
	for seed := range uint64(most) {
		found := false
		synctest.Test(t, func(t *testing.T) {
			_, err := storetest.TryHistory(t, processes(seed, func(d *disk) objects.Service { return blind{d} }), seed)
			found = err != nil && strings.Contains(err.Error(), "Illegal")
			t.Log(err)
		})
		if found {
			return
		}
	}
	t.Errorf("%d histories show nothing", most)
}

// blind is a service that writes over every version.
type blind struct{ *disk }

// Write implements objects.Service.
func (b blind) Write(ctx context.Context, key string, _ objects.Version, c objects.Content) (objects.Version, error) {
	b.mu.Lock()
	there := b.objects[key].version
	b.mu.Unlock()
	return b.disk.Write(ctx, key, there, c)
}

// processes is a bucket that each store uses as another process, by the service that see makes of the disk.
func processes(seed uint64, see func(d *disk) objects.Service) storetest.Output {
	w := &world{seed: seed, objects: map[string]object{}, calls: map[string]int{}, stops: map[string]stop{},
		log: func(string, ...any) {}}
	w.trouble.set(0.15)
	var mu sync.Mutex
	disks := map[store.Store]*disk{}
	return storetest.Output{
		Open: func(context.Context) (store.Store, error) {
			mu.Lock()
			defer mu.Unlock()
			d := &disk{world: w, name: fmt.Sprint("process ", len(disks)), dead: make(chan struct{})}
			s := bucket.New(see(d), bucket.Address{Scheme: "sim", Bucket: "b", Prefix: "out"}, bucket.Options{Clock: clock{d}})
			disks[s] = d
			return s, nil
		},
		Die: func(s store.Store) {
			mu.Lock()
			d := disks[s]
			mu.Unlock()
			close(d.dead)
			time.Sleep(2 * time.Minute)
		},
		Leases: true,
		Lossy:  true,
	}
}

package gpus

import (
	"errors"
	"os"
	"strings"
	"testing"

	"latentbeam/internal/devices/nvml"
	"latentbeam/internal/devices/nvml/gputest"
)

// TestLook: the devices of a plan are those that a run would take, of which none is opened or claimed to find out.
func TestLook(t *testing.T) {
	for _, c := range []struct {
		name    string
		host    *gputest.Host
		workers int
		taken   int // devices that another process has
		want    int
		fails   string
	}{
		{name: "all", host: gputest.A100s(3), want: 3},
		{name: "some", host: gputest.Islands(), workers: 3, want: 3},
		{name: "one class", host: gputest.Mixed(), want: 2},
		{name: "sick ones", host: gputest.Sick(), want: 2},
		{name: "one is taken", host: gputest.A100s(3), taken: 1, want: 2},
		{name: "all are taken", host: gputest.T4s(2), taken: 2, fails: "is in use by pid"},
		{name: "too few", host: gputest.T4s(2), workers: 2, taken: 1, fails: "2 GPUs are asked for and 1 can be had"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, claims := newMaker(t, c.host), t.TempDir()
			for i := range c.taken {
				release, err := nvml.Claim(claims, gputest.UUID(i), "another")
				if err != nil {
					t.Fatal(err)
				}
				defer release()
			}
			if c.taken > 0 && nvml.Holder(claims, gputest.UUID(0)) == nil {
				t.Skip("locks cannot be seen here")
			}
			before, _ := os.ReadDir(claims)
			devices, class, err := Inspect(c.host, m, Options{Workers: c.workers, Claims: claims})
			if after, _ := os.ReadDir(claims); len(m.opened) > 0 || len(after) != len(before) {
				t.Errorf("%d devices were opened, %d lock files made", len(m.opened), len(after)-len(before))
			}
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), c.fails) {
					t.Errorf("%v, want %s", err, c.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			p := openPool(t, c.host, m, Options{Workers: c.workers, Claims: claims})
			same := p.Layout()
			if len(devices) != c.want || len(same) != c.want || class != p.Class() {
				t.Fatalf("%d devices of class %s, the run takes %d of %s", len(devices), class, len(same), p.Class())
			}
			for i := range same {
				if devices[i] != same[i] {
					t.Errorf("%+v, the run takes %+v", devices[i], same[i])
				}
			}
		})
	}
	host := gputest.T4s(1)
	m := newMaker(t, host)
	m.old = map[string]string{gputest.UUID(0): "too old: compute capability 7.0, needs 7.5"}
	_, _, err := Inspect(host, m, Options{Claims: t.TempDir()})
	if !errors.Is(err, ErrNone) || !strings.Contains(err.Error(), "Tesla T4 is too old: compute capability 7.0") {
		t.Errorf("with one that is too old: %v", err)
	}
	if _, _, err := Inspect(nil, &fakeMaker{}, Options{Claims: t.TempDir()}); !errors.Is(err, ErrNone) {
		t.Errorf("without a GPU: %v", err)
	}
}

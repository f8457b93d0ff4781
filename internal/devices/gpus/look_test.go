package gpus

import (
	"errors"
	"os"
	"strings"
	"testing"

	"latentbeam/internal/devices/nvml"
	"latentbeam/internal/devices/nvml/gputest"
)

// TestInspect: Inspect, which a plan uses, returns the devices and the class that Open would take. It opens no device and claims none.
func TestInspect(t *testing.T) {
	for _, c := range []struct {
		name    string
		host    *gputest.Host
		workers int    // that the job asks for; 0: no number
		taken   int    // devices that another process has claimed
		want    int    // number of devices
		fails   string // part of the error; "": none
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
					t.Errorf("got error %v, want %q", err, c.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			p := openPool(t, c.host, m, Options{Workers: c.workers, Claims: claims})
			taken := p.Layout()
			if len(devices) != c.want || len(taken) != c.want || class != p.Class() {
				t.Fatalf("Inspect gives %d devices of class %s, Open %d of %s", len(devices), class, len(taken), p.Class())
			}
			for i := range taken {
				if devices[i] != taken[i] {
					t.Errorf("device %d: Inspect gives %+v, Open %+v", i, devices[i], taken[i])
				}
			}
		})
	}
	host := gputest.T4s(1)
	m := newMaker(t, host)
	m.old = map[string]string{gputest.UUID(0): "too old: compute capability 7.0, needs 7.5"}
	_, _, err := Inspect(host, m, Options{Claims: t.TempDir()})
	if !errors.Is(err, ErrNone) || !strings.Contains(err.Error(), "Tesla T4 is too old: compute capability 7.0") {
		t.Errorf("a host whose GPU is too old: got %v, want ErrNone", err)
	}
	if _, _, err := Inspect(nil, &fakeMaker{}, Options{Claims: t.TempDir()}); !errors.Is(err, ErrNone) {
		t.Errorf("a host without GPUs: got %v, want ErrNone", err)
	}
}

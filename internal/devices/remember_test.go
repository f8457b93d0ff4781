package devices

import (
	"os"
	"testing"
	"time"

	"latentbeam/internal/storage/fingerprints"
	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/stages/cost"
)

// TestSpeedIsRemembered: a later process uses a speed from the cache, but not one that is old, damaged, impossible or of another setup.
func TestSpeedIsRemembered(t *testing.T) {
	t.Setenv(fingerprints.CacheVariable, t.TempDir())
	const mark = 12345 // bytes/s that no real measurement gives: it shows that the cache was used
	s := Speed{Bandwidth: mark}
	s.Price.Products[kernels.OpLinear][kernels.F32] = cost.Product{FLOP: 1e-10, Elements: 1e-9}
	s.Price.Elements, s.Price.Calls = 1e-9, 1e-6
	setup := Setup{Device: "cpu", Cores: 1, Workers: 78}
	var work cost.Kernels
	work.Products[kernels.OpLinear][kernels.F32].FLOP = 1
	// measureLater measures as a new process would, which has only the cache.
	measureLater := func() Speed {
		t.Helper()
		speeds.of = nil
		got, err := Measure(cpu.New(1), setup, work)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	path, err := speedsFile()
	if err != nil {
		t.Fatal(err)
	}
	rememberSpeed(setup, s)
	if got := measureLater(); got != s {
		t.Errorf("got %+v, want the remembered %+v", got, s)
	}
	impossible := s
	impossible.Price.Calls = -1
	for what, change := range map[string]func(){
		"damaged":          func() { os.WriteFile(path, []byte(`{"x`), 0o600) },
		"impossible":       func() { rememberSpeed(setup, impossible) },
		"of another setup": func() { rememberSpeed(Setup{Device: "cpu", Cores: 1, Workers: 79}, s) },
	} {
		os.Remove(path)
		if change(); measureLater().Bandwidth == mark {
			t.Errorf("used a speed that is %s", what)
		}
	}
	measured := measureLater()
	if again := measureLater(); again != measured {
		t.Errorf("the next process got %+v, want %+v from the cache", again, measured)
	}
	if old := readSpeedsAt(time.Now().Add(speedAge + time.Hour)); len(old) > 0 {
		t.Errorf("an hour after speedAge the cache still gives %+v", old)
	}
}

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

// TestSpeedIsRemembered: a later process uses a measured speed, but not one that is old, damaged, impossible or of another setup.
func TestSpeedIsRemembered(t *testing.T) {
	t.Setenv(fingerprints.CacheVariable, t.TempDir())
	const mark = 12345 // bytes/s that nobody measures
	s := Speed{Bandwidth: mark}
	s.Price.Products[kernels.OpLinear][kernels.F32] = cost.Product{FLOP: 1e-10, Elements: 1e-9}
	s.Price.Elements, s.Price.Calls = 1e-9, 1e-6
	setup := Setup{Device: "cpu", Cores: 1, Workers: 78}
	var work cost.Kernels
	work.Products[kernels.OpLinear][kernels.F32].FLOP = 1
	later := func() Speed { // as in a new process
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
	if got := later(); got != s {
		t.Errorf("%+v, want the remembered %+v", got, s)
	}
	impossible := s
	impossible.Price.Calls = -1
	for what, change := range map[string]func(){
		"damaged":          func() { os.WriteFile(path, []byte(`{"x`), 0o600) },
		"impossible":       func() { rememberSpeed(setup, impossible) },
		"of another setup": func() { rememberSpeed(Setup{Device: "cpu", Cores: 1, Workers: 79}, s) },
	} {
		os.Remove(path)
		if change(); later().Bandwidth == mark {
			t.Errorf("used a speed that is %s", what)
		}
	}
	measured := later()
	if again := later(); again != measured {
		t.Errorf("measured again: %+v, before %+v", again, measured)
	}
	if old := readSpeedsAt(time.Now().Add(speedAge + time.Hour)); len(old) > 0 {
		t.Errorf("used a speed of yesterday: %+v", old)
	}
}

//go:build cuda && linux

package cuda

import (
	"fmt"
	"log/slog"
	"math"
	"os"
	"slices"
	"sync"
	"time"

	"latentbeam/schemas/fault"
)

// EnvWarpgroups is the environment variable that turns kernels of warpgroups (wgmma, compute capability 9.0) off,
// where it is 0.
const EnvWarpgroups = "LATENTBEAM_WGMMA"

// trialLimit is how long the trials of a device may take, the driver's compilation of their kernels included.
const trialLimit = 3 * time.Minute

// trial is a small problem that kernels of warpgroups solve, and then those that they stand for: run looks at
// eng.warpgroups. What it returns must be near one another.
type trial struct {
	name string
	run  func(b *Backend) ([]float32, error)
	near float64 // largest difference, relative above 1
}

// trials are what a device does before kernels of warpgroups are used on it, a line for each of them.
func trials() []trial { return slices.Concat(productTrials(), convTrials(), attentionTrials()) }

// judged says of devices of this process, by UUID, why their kernels of warpgroups are not used; "": they are. Or that
// their trials have not ended: they are not made again.
var judged struct {
	sync.Mutex
	why     map[string]string
	endless map[string]error
}

// warpgroupsOff returns why a device that has them does not use warpgroups. One that was not opened yet will.
func warpgroupsOff(d Device) string {
	if os.Getenv(EnvWarpgroups) == "0" {
		return EnvWarpgroups + "=0"
	}
	judged.Lock()
	defer judged.Unlock()
	return judged.why[d.UUID]
}

// arch is the device's compute capability as kernels count it: 8.0 for one that does without its warpgroups.
func (e *engine) arch() int {
	if arch := 10*e.Major + e.Minor; arch != warpgroupArch || e.warpgroups {
		return arch
	}
	return 80
}

// tryWarpgroups decides whether kernels of warpgroups are used on a device that was opened, before anybody else has
// it. They may end its context.
func (e *engine) tryWarpgroups() error {
	if e.tried || !e.hasWarpgroups() {
		return nil
	}
	judged.Lock()
	why, known := judged.why[e.UUID]
	err := judged.endless[e.UUID]
	judged.Unlock()
	if err != nil {
		return fault.Fatal(err)
	}
	if !known && os.Getenv(EnvWarpgroups) != "0" {
		if why, err = e.judgeWarpgroups(); err != nil {
			return err
		}
		judged.Lock()
		if judged.why == nil {
			judged.why = map[string]string{}
		}
		judged.why[e.UUID] = why
		judged.Unlock()
		if why != "" {
			slog.Warn("a GPU computes with the kernels of older ones, more slowly: what it computed with its own "+
				"was wrong", "device", e.name(), "gpu", e.Name, "why", why, "class", e.Class())
		}
	}
	if e.failure() != nil {
		e.spoiled = why
	}
	e.tried, e.warpgroups = true, warpgroupsOff(e.Device) == ""
	return nil
}

// afterTrial says how to do without trials, where one has ended the context of e and no new one can be opened: drivers
// may want a new process. e may be nil.
func (e *engine) afterTrial() string {
	if e == nil || e.spoiled == "" {
		return ""
	}
	return fmt.Sprintf(" anew: a trial of the kernels of warpgroups has ended its context (%s), start again with %s=0",
		e.spoiled, EnvWarpgroups)
}

// judgeWarpgroups makes the trials. An error has nothing to do with warpgroups, or is that a trial does not end.
func (e *engine) judgeWarpgroups() (why string, err error) {
	type outcome struct {
		why string
		err error
	}
	done := make(chan outcome, 1)
	go func() {
		b, err := e.backend(Options{Memory: 8 << 20})
		if err != nil {
			done <- outcome{err: err}
			return
		}
		for _, t := range trials() {
			if why, err := b.try(t); why != "" || err != nil {
				done <- outcome{why, err}
				return
			}
		}
		done <- outcome{}
	}()
	select {
	case o := <-done:
		if e.gaveUp() { // its class stays that of a device that is lost: others may do the work
			return "", e.endless(o.err)
		}
		return o.why, o.err
	case <-time.After(trialLimit):
		return "", fault.Fatal(e.endless(fmt.Errorf("it has taken %v", trialLimit)))
	}
}

// endless notes that a trial does not end, as cause says, and how to do without.
func (e *engine) endless(cause error) error {
	err := fmt.Errorf("a trial of the kernels of warpgroups does not end on %s: start again with %s=0 (%w)",
		e.Name, EnvWarpgroups, cause)
	e.spoiled = "its thread does not come back"
	judged.Lock()
	defer judged.Unlock()
	if judged.endless == nil {
		judged.endless = map[string]error{}
	}
	judged.endless[e.UUID] = err
	return err
}

// try makes a trial and returns what is wrong with the kernels of warpgroups. An error is of another kind.
func (b *Backend) try(t trial) (why string, err error) {
	b.eng.warpgroups = true
	got, err := t.run(b)
	b.eng.warpgroups = false
	if err != nil {
		if fault.IsOutOfMemory(err) || fault.IsDeviceLost(err) {
			return "", err
		}
		return fmt.Sprintf("%s: %v", t.name, err), nil
	}
	want, err := t.run(b)
	if err != nil {
		return "", err
	}
	for i, v := range want {
		if d := math.Abs(float64(got[i]) - float64(v)); !(d <= t.near*max(1, math.Abs(float64(v)))) {
			return fmt.Sprintf("%s: number %d is %g, by kernels without warpgroups %g", t.name, i, got[i], v), nil
		}
	}
	return "", nil
}

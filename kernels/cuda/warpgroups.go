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

// EnvWarpgroups is the environment variable that turns warpgroup kernels (wgmma, compute capability 9.0) off if it is 0.
const EnvWarpgroups = "LATENTBEAM_WGMMA"

// trialLimit is the time limit for the trials of a device, including the driver's compilation of their kernels.
const trialLimit = 3 * time.Minute

// trial is a small problem that is computed with warpgroup kernels and then with the kernels that they replace; run reads
// eng.warpgroups. The two results must be nearly equal.
type trial struct {
	name string
	run  func(b *Backend) ([]float32, error)
	near float64 // largest allowed difference; relative to the value if that is above 1
}

// trials returns the checks of a device before it uses warpgroup kernels, one for each kernel.
func trials() []trial { return slices.Concat(productTrials(), convTrials(), attentionTrials()) }

// verdicts holds, by UUID, why devices of this process do not use warpgroup kernels; "": they use them. It also records trials
// that have not ended, so that they are not repeated.
var verdicts struct {
	sync.Mutex
	why     map[string]string
	endless map[string]error
}

// warpgroupsOff returns why a device that has warpgroups does not use them. A device that was not opened yet will use them.
func warpgroupsOff(d Device) string {
	if os.Getenv(EnvWarpgroups) == "0" {
		return EnvWarpgroups + "=0"
	}
	verdicts.Lock()
	defer verdicts.Unlock()
	return verdicts.why[d.UUID]
}

// arch returns the compute capability of the device's kernels: 8.0 if it does not use its warpgroups.
func (e *engine) arch() int {
	if arch := 10*e.Major + e.Minor; arch != warpgroupArch || e.warpgroups {
		return arch
	}
	return 80
}

// tryWarpgroups decides whether an opened device uses warpgroup kernels, before anybody else can use the device. The trials may
// end its context.
func (e *engine) tryWarpgroups() error {
	if e.trialsDone || !e.hasWarpgroups() {
		return nil
	}
	verdicts.Lock()
	why, known := verdicts.why[e.UUID]
	err := verdicts.endless[e.UUID]
	verdicts.Unlock()
	if err != nil {
		return fault.Fatal(err)
	}
	if !known && os.Getenv(EnvWarpgroups) != "0" {
		if why, err = e.judgeWarpgroups(); err != nil {
			return err
		}
		verdicts.Lock()
		if verdicts.why == nil {
			verdicts.why = map[string]string{}
		}
		verdicts.why[e.UUID] = why
		verdicts.Unlock()
		if why != "" {
			slog.Warn("a GPU computes with the kernels of older ones, more slowly: a check of its own kernels failed",
				"device", e.name(), "gpu", e.Name, "why", why, "class", e.Class())
		}
	}
	if e.failure() != nil {
		e.failedTrial = why
	}
	e.trialsDone, e.warpgroups = true, warpgroupsOff(e.Device) == ""
	return nil
}

// afterTrial says how to run without trials, if one has ended the context of e and no new context can be opened: some drivers
// need a new process. e may be nil.
func (e *engine) afterTrial() string {
	if e == nil || e.failedTrial == "" {
		return ""
	}
	return fmt.Sprintf(" again: a trial of the warpgroup kernels has ended its context (%s), restart the program with %s=0",
		e.failedTrial, EnvWarpgroups)
}

// judgeWarpgroups runs the trials. An error is not about warpgroups, or means that a trial does not end.
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
			if why, err := b.runTrial(t); why != "" || err != nil {
				done <- outcome{why, err}
				return
			}
		}
		done <- outcome{}
	}()
	select {
	case o := <-done:
		if e.gaveUp() { // it keeps the class of a lost device: other devices may do the work
			return "", e.recordEndlessTrial(o.err)
		}
		return o.why, o.err
	case <-time.After(trialLimit):
		return "", fault.Fatal(e.recordEndlessTrial(fmt.Errorf("it has taken %v", trialLimit)))
	}
}

// recordEndlessTrial records that a trial does not end, because of cause, and says how to run without trials.
func (e *engine) recordEndlessTrial(cause error) error {
	err := fmt.Errorf("a trial of the warpgroup kernels does not end on %s: restart the program with %s=0 (%w)",
		e.Name, EnvWarpgroups, cause)
	e.failedTrial = "its thread does not return"
	verdicts.Lock()
	defer verdicts.Unlock()
	if verdicts.endless == nil {
		verdicts.endless = map[string]error{}
	}
	verdicts.endless[e.UUID] = err
	return err
}

// runTrial runs a trial and returns what is wrong with the warpgroup kernels. err is any other error.
func (b *Backend) runTrial(t trial) (why string, err error) {
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

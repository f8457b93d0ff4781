//go:build cuda && linux

package cuda

import (
	"errors"

	"latentbeam/kernels/cuda/driver"
	"latentbeam/schemas/fault"
)

// Results of driver calls (CUresult) that are handled specially.
const (
	outOfMemory       = 2
	deviceUnavailable = 46
	noDevice          = 100
	noBinary          = 209
	eccUncorrectable  = 214
	peersUnsupported  = 217
	invalidPTX        = 218
	nvlinkBroken      = 220
	unsupportedPTX    = 222
	contained         = 226
	illegalAddress    = 700
	launchTimeout     = 702
	peersEnabled      = 704
	contextDestroyed  = 709
	deviceAssert      = 710
	tooManyPeers      = 711
	hardwareStack     = 714
	launchFailed      = 719
	tensorMemoryLeak  = 721
	unknown           = 999
)

// classify marks an error of the driver. Too little memory, lost devices and broken contexts are external failures and worth a
// retry, which gets a new context. Other errors are mistakes of this program and end the job.
func classify(err error) error {
	var e *driver.Error
	if err == nil || !errors.As(err, &e) {
		return err
	}
	switch {
	case e.Code == outOfMemory:
		return fault.OutOfMemory(err)
	case isLost(e.Code):
		return fault.DeviceLost(err)
	case isSticky(e.Code):
		return fault.Retry(err)
	}
	return fault.Fatal(err)
}

// isLost reports whether code means that the device itself is gone or defective.
func isLost(code int) bool {
	switch code {
	case deviceUnavailable, noDevice, eccUncorrectable, nvlinkBroken, contained:
		return true
	}
	return false
}

// isSticky reports whether every later call in the context returns the same code. The context cannot be used any more.
func isSticky(code int) bool {
	switch code {
	case illegalAddress, launchTimeout, contextDestroyed, deviceAssert, tensorMemoryLeak, unknown:
		return true
	}
	return code >= hardwareStack && code <= launchFailed || isLost(code)
}

// endsContext reports whether err ends the context that returned it.
func endsContext(err error) bool {
	var e *driver.Error
	return errors.As(err, &e) && isSticky(e.Code)
}

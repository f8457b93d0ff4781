//go:build cuda && linux

package cuda

import (
	"errors"

	"latentbeam/kernels/cuda/driver"
	"latentbeam/schemas/fault"
)

// What driver calls answer (CUresult) and what it means for the work.
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

// classify marks an error of the driver with what it means: short memory, lost devices and broken contexts are the
// world's doing and worth a retry (the next context is new). All else is a mistake of this program and ends the job.
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

// isLost reports whether code says that the device itself is gone or defective.
func isLost(code int) bool {
	switch code {
	case deviceUnavailable, noDevice, eccUncorrectable, nvlinkBroken, contained:
		return true
	}
	return false
}

// isSticky reports whether every later call in the context gives the same code: nothing in the context may be
// used again.
func isSticky(code int) bool {
	switch code {
	case illegalAddress, launchTimeout, contextDestroyed, deviceAssert, tensorMemoryLeak, unknown:
		return true
	}
	return code >= hardwareStack && code <= launchFailed || isLost(code)
}

// ends reports whether err is the end of the context that it came from.
func ends(err error) bool {
	var e *driver.Error
	return errors.As(err, &e) && isSticky(e.Code)
}

package fault

import "errors"

// device is an error that says what is wrong with a device.
type device struct {
	error
	lost bool // else it is out of memory
}

func (e *device) Unwrap() error { return e.error }

// OutOfMemory marks err as a device that has no memory left: worth a retry (ClassRetry), with a smaller batch
// or more devices. nil stays nil; the message is unchanged.
func OutOfMemory(err error) error {
	if err == nil {
		return nil
	}
	return Retry(&device{error: err})
}

// IsOutOfMemory reports whether err, or one that it wraps, was marked by OutOfMemory.
func IsOutOfMemory(err error) bool {
	var d *device
	return errors.As(err, &d) && !d.lost
}

// DeviceLost marks err as the end of a device, such as one that has fallen off the bus or whose memory is
// defective: worth a retry (ClassRetry) on another. nil stays nil; the message is unchanged.
func DeviceLost(err error) error {
	if err == nil {
		return nil
	}
	return Retry(&device{error: err, lost: true})
}

// IsDeviceLost reports whether err, or one that it wraps, was marked by DeviceLost.
func IsDeviceLost(err error) bool {
	var d *device
	return errors.As(err, &d) && d.lost
}

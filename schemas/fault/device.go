package fault

import "errors"

// device is an error that names a trouble of a device.
type device struct {
	error
	what trouble
}

type trouble int

const (
	outOfMemory trouble = iota + 1
	lost
	notFinite
)

func (e *device) Unwrap() error { return e.error }

// is reports whether err, or an error that it wraps, is a device error with trouble t.
func (t trouble) is(err error) bool {
	var d *device
	return errors.As(err, &d) && d.what == t
}

// OutOfMemory marks err as a device without free memory. It is worth a retry (ClassRetry), with a smaller batch or more
// devices. nil stays nil; the message is unchanged.
func OutOfMemory(err error) error {
	if err == nil {
		return nil
	}
	return Retry(&device{err, outOfMemory})
}

// IsOutOfMemory reports whether err, or one that it wraps, was marked by OutOfMemory.
func IsOutOfMemory(err error) bool { return outOfMemory.is(err) }

// DeviceLost marks err as the loss of a device, such as one that has fallen off the bus or has defective memory. It is worth a
// retry (ClassRetry) on another device. nil stays nil; the message is unchanged.
func DeviceLost(err error) error {
	if err == nil {
		return nil
	}
	return Retry(&device{err, lost})
}

// IsDeviceLost reports whether err, or one that it wraps, was marked by DeviceLost.
func IsDeviceLost(err error) bool { return lost.is(err) }

// NotFinite marks err as a result that holds a NaN or an infinity. It is the row's fault (ClassRow) unless another device
// computes a finite result. nil stays nil; the message is unchanged.
func NotFinite(err error) error {
	if err == nil {
		return nil
	}
	return Row(&device{err, notFinite})
}

// IsNotFinite reports whether err, or one that it wraps, was marked by NotFinite.
func IsNotFinite(err error) bool { return notFinite.is(err) }

package fault

import "errors"

// device is an error that says what is wrong with a device, or may be.
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

// is reports whether err, or one that it wraps, says so of a device.
func (t trouble) is(err error) bool {
	var d *device
	return errors.As(err, &d) && d.what == t
}

// OutOfMemory marks err as a device that has no memory left: worth a retry (ClassRetry), with a smaller batch
// or more devices. nil stays nil; the message is unchanged.
func OutOfMemory(err error) error {
	if err == nil {
		return nil
	}
	return Retry(&device{err, outOfMemory})
}

// IsOutOfMemory reports whether err, or one that it wraps, was marked by OutOfMemory.
func IsOutOfMemory(err error) bool { return outOfMemory.is(err) }

// DeviceLost marks err as the end of a device, such as one that has fallen off the bus or whose memory is
// defective: worth a retry (ClassRetry) on another. nil stays nil; the message is unchanged.
func DeviceLost(err error) error {
	if err == nil {
		return nil
	}
	return Retry(&device{err, lost})
}

// IsDeviceLost reports whether err, or one that it wraps, was marked by DeviceLost.
func IsDeviceLost(err error) bool { return lost.is(err) }

// NotFinite marks err as a result that holds a NaN or an infinity. It is the row's fault (ClassRow), unless another
// device computes it well. nil stays nil; the message is unchanged.
func NotFinite(err error) error {
	if err == nil {
		return nil
	}
	return Row(&device{err, notFinite})
}

// IsNotFinite reports whether err, or one that it wraps, was marked by NotFinite.
func IsNotFinite(err error) bool { return notFinite.is(err) }

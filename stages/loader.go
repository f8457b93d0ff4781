package stages

import "latentbeam/kernels"

// Loader is a Stage with weights. Load brings them to the device's memory, once however often it is
// called, so that a checkpoint that does not fit is known before the first row.
type Loader interface {
	Load(dev kernels.Backend) error
}

package stages

import (
	"fmt"

	"latentbeam/internal/plan/layout"
	"latentbeam/kernels"
)

// Sharded is a Spreader that can cut its weights over the devices of a set.
type Sharded interface {
	Spreader
	// Shards returns how many devices together hold the weights, 1 where each holds all. Where it is more, a set
	// has a multiple of it.
	Shards() int
	// LoadShard brings one of that many parts of the weights to a device, as Loader does with all.
	LoadShard(dev kernels.Backend, shard int) error
}

// Holder is a Stage that can be told how its weights are to lie in memory: cut over devices, or passing through. It
// is told before it loads any.
type Holder interface {
	Hold(h layout.Held) error
}

// OptionError is an error about one option of a stage, so that it can be reported with its line.
type OptionError struct {
	Key string
	Err error
}

// Errorf returns the OptionError of a key.
func Errorf(key, format string, args ...any) *OptionError {
	return &OptionError{key, fmt.Errorf(format, args...)}
}

// Error is that of the error.
func (e *OptionError) Error() string { return e.Err.Error() }

// Unwrap returns it.
func (e *OptionError) Unwrap() error { return e.Err }

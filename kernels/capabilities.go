package kernels

import "time"

// Capabilities holds the optional abilities of a backend. A zero field means that the backend lacks the ability. A wrapper
// returns those of the backend inside, with its own changes. Callers ask once per model or batch, not per call.
type Capabilities struct {
	// UUID is the driver's name of the hardware, such as "GPU-…"; "" for a CPU.
	UUID string
	// Refiller replaces weights in the device's own memory.
	Refiller Refiller
	// Linker connects devices of several processes.
	Linker Linker
	// Release frees the memory of a weight, on a device with its own memory, when all work enqueued so far has ended. If
	// Release is nil, the memory is freed when nothing refers to the weight any more. The weight must not be used afterwards; a
	// second Release of it does nothing.
	Release func(t Tensor)
	// Passing marks t as a weight that is in memory only for a short time, because the model is larger than the memory. The
	// backend then caches no packed copy of it.
	Passing func(t Tensor)
	// Peak returns the largest number of bytes of tensors (not weights) at one time since the last call, on this backend. It
	// corrects a plan's estimate. Backends of one device share its weights and count their own tensors.
	Peak func() int64
	// Time measures work on a device that computes asynchronously, such as a GPU, where a call returns before its operation
	// ends. Time marks the current position of the stream, and end marks the position at its call. The next Wait or Download
	// that finds both marks passed calls report, on its own goroutine, with the time between them. Spans do not nest.
	Time func(report func(time.Duration)) (end func())
	// ReLU says that the device has the operations ReLU and Tanh. Other devices return an error for them.
	ReLU bool
	// Int8 says that the device can compute Linear and the scores of Attention with 8-bit numbers (Epilogue.Int8,
	// AttentionSpec.Int8). Other devices return an error.
	Int8 bool
	// Count adds work that the host does for the device. It is safe for concurrent use. Only Metered has it.
	Count func(op Op, c Count)
}

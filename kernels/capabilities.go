package kernels

import "time"

// Capabilities says what a backend can do beyond its operations. A field that is left out means that it cannot.
// Wrappers pass it on, and change what they change: a device is asked once for a model or a batch, not for each call.
type Capabilities struct {
	// UUID names the hardware as its driver does, such as "GPU-…"; "" for a CPU.
	UUID string
	// Refiller exchanges weights in a memory of the device's own.
	Refiller Refiller
	// Linker joins devices of several processes.
	Linker Linker
	// Release gives back the memory of a weight, on a device with a memory of its own, when all work on the device has
	// ended that was enqueued so far. Without it the memory is given back when nobody refers to the weight any more.
	// Nobody uses the weight afterwards; to release it again does nothing.
	Release func(t Tensor)
	// Passing says that t, a weight, is one of many of which few are in memory at a time: nothing is to be kept of it
	// but its own elements, wherever they lie.
	Passing func(t Tensor)
	// Peak returns the most bytes of tensors (not weights) at one time since the last call, on this backend. A plan
	// is corrected by it. Backends of one device share its weights and count their own tensors.
	Peak func() int64
	// Time is that of a device that computes behind its caller, such as a GPU: the time of an operation is not that of
	// its call. It marks where the stream is now, and end where it is then. What the stream took between the two goes
	// to report in the next Wait or Download that finds both passed, on its goroutine. Spans do not nest.
	Time func(report func(time.Duration)) (end func())
	// ReLU says that the device has the operations ReLU and Tanh. Others refuse them.
	ReLU bool
	// Int8 says that the device computes Linear and the scores of Attention of 8-bit numbers (Epilogue.Int8, AttentionSpec.Int8). Others refuse it.
	Int8 bool
	// Count adds work that the host does for the device. Any goroutine may call it. Only Metered has it.
	Count func(op Op, c Count)
}

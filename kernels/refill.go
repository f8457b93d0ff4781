package kernels

// Refiller is a backend with its own memory that can overwrite a weight with another one of the same type and shape. So a model
// larger than the memory can pass through two buffers. Two Refillers are equal if they belong to the same backend, whatever
// wraps it.
type Refiller interface {
	// Refill starts to copy data, little-endian, into the weight t once the work enqueued so far has ended. It does not delay
	// work that is enqueued later. t must not be used until ready has been called; work enqueued after ready waits for the
	// data. data is called once, concurrently with that work, and its result must not change until ready has been called.
	// Errors are recorded like other errors of the backend.
	Refill(t Tensor, data func() []byte) (ready func())
}

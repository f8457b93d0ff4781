package kernels

// Refiller is a backend with a memory of its own in which weights can be exchanged for others of their type and
// shape. So a model passes through two buffers that is larger than the memory. Refillers are equal if they are one
// backend, behind whatever wrappers.
type Refiller interface {
	// Refill begins to bring data, little-endian, to t, a weight, when the work enqueued so far has ended. It does
	// not hold up work that is enqueued from now on; t must not be used until ready was called, which lets what
	// is enqueued then wait for the data. data is called once, beside that work; what it returns is left alone until
	// ready was called. An error is one of the backend.
	Refill(t Tensor, data func() []byte) (ready func())
}

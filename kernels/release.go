package kernels

// Releaser is a Backend with a memory of its own that can give weights back at once, not only when nobody refers to
// them any more.
type Releaser interface {
	// Release gives back the memory of a weight when all work on the device has ended that was enqueued so far. Nobody
	// uses the weight any more; to release it again does nothing.
	Release(t Tensor)
}

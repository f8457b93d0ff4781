package kernels

// Meter is a Backend that knows how much device memory it takes, so that a plan can be corrected by what was
// measured. Backends of one device share its weights and count their own tensors.
type Meter interface {
	// Peak returns the most bytes that tensors (not weights) held at once since the last call, on this backend.
	Peak() int64
}

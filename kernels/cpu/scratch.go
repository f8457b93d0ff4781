package cpu

// rowScratch is the memory that norms need in addition to their tensors.
type rowScratch struct {
	doubles []float64
	// Vectors of a whole call are in the scratch of the first worker, the goroutine that makes the call.
	vectors [4][]float32
	moments []moments
}

// callScratch returns the scratch of the current call.
func (b *Backend) callScratch() *rowScratch { return &b.crew.workers[0].rows }

// growList returns list with n elements, uninitialised, and enlarges it if necessary.
func growList[E any](list *[]E, n int) []E {
	if cap(*list) < n {
		*list = make([]E, n+n/8)
	}
	return (*list)[:n]
}

// vector returns vector i of the call with n elements.
func (s *rowScratch) vector(i, n int) []float32 { return growList(&s.vectors[i], n) }

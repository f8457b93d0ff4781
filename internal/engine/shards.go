package engine

// capped is the largest set of at most n and cap devices that the step runs on: a multiple of its shards, or one
// device. Where its weights are cut because they do not fit one device, that one fails in its turn.
func capped(s *Step, n, cap int) int {
	unit := s.Capabilities().Shards()
	if n = min(n, cap); n < unit {
		return 1
	}
	return n / unit * unit
}

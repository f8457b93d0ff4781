package kernels

// As finds T, something that some backends also are, in be or in what it wraps. Wrappers have a method Unwrap.
func As[T any](be Backend) (T, bool) {
	for {
		if t, ok := be.(T); ok {
			return t, true
		}
		w, wraps := be.(interface{ Unwrap() Backend })
		if !wraps {
			var none T
			return none, false
		}
		be = w.Unwrap()
	}
}

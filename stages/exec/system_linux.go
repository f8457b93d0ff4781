package exec

// supported returns an error if this system cannot run programs.
func supported() error { return nil }

//go:build cuda && linux

package cuda

// Libraries returns what is looked for at run time, in the order of importance.
func Libraries() []Library {
	l := Library{Name: "libcuda.so.1", Without: "nothing runs on GPUs"}
	if o, err := open(); err != nil {
		l.Problem = err.Error()
	} else {
		l.Path = o.Path
	}
	return []Library{l}
}

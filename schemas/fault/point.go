package fault

import "sync/atomic"

var hook atomic.Pointer[func(name string)]

// Point marks a place where a crash must do no harm. Without a hook it costs one atomic load.
// The name is one of the constants of points.go.
func Point(name string) {
	if f := hook.Load(); f != nil {
		(*f)(name)
	}
}

// SetHook makes every Point call f from now on, on the caller's goroutine; nil removes the hook.
// Only tests use it: a child process installs a hook that kills it at the n-th hit of a name.
func SetHook(f func(name string)) {
	if f == nil {
		hook.Store(nil)
		return
	}
	hook.Store(&f)
}

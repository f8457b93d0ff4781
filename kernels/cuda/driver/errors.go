//go:build cuda && linux

package driver

// #include "calls.h"
import "C"

import (
	"errors"
	"fmt"

	"gorgonia.org/cu"
)

// Error is the error of a driver call.
type Error struct {
	Call string // such as cuMemAlloc
	Code int    // a CUresult
}

// Error returns the call, the driver's name of the code, and its description.
func (e *Error) Error() string {
	var name, text *C.char
	C.lb_error_texts(C.int(e.Code), &name, &text)
	switch {
	case name == nil:
		return fmt.Sprintf("%s: CUDA error %d", e.Call, e.Code)
	case text == nil:
		return fmt.Sprintf("%s: %s (%d)", e.Call, C.GoString(name), e.Code)
	}
	return fmt.Sprintf("%s: %s (%d): %s", e.Call, C.GoString(name), e.Code, C.GoString(text))
}

func check(call string, code C.int) error {
	if code == 0 {
		return nil
	}
	return &Error{call, int(code)}
}

// Check converts an error of package cu, whose type is not exported, to an *Error.
func Check(call string, err error) error {
	if err == nil {
		return nil
	}
	if code, ok := codeOf(cu.Success, err); ok {
		return &Error{call, code}
	}
	return fmt.Errorf("%s: %w", call, err)
}

// codeOf returns the code of an error of sample's type in err.
func codeOf[T interface {
	~int
	error
}](_ T, err error) (int, bool) {
	var found T
	ok := errors.As(err, &found)
	return int(found), ok
}

//go:build cuda && linux

package driver

import (
	"errors"
	"strings"
	"testing"

	"gorgonia.org/cu"
)

// TestBeforeOpen: the program runs without a driver, and calls return an error before Open.
func TestBeforeOpen(t *testing.T) {
	if _, err := cu.NumDevices(); !errors.Is(err, cu.NotInitialized) {
		t.Errorf("counting devices before Open: %v, want NotInitialized", err)
	}
	if err := AllowShared(cu.Function{}, 1<<16); err == nil {
		t.Error("AllowShared without a driver: no error")
	}
	if _, err := HostAlloc(1 << 16); err == nil {
		t.Error("HostAlloc without a driver: no error")
	}
}

// TestOpenWithoutDriver: a missing library and a library that is no driver give different errors, and neither ends the
// program.
func TestOpenWithoutDriver(t *testing.T) {
	for _, c := range []struct {
		path, text string
		missing    bool
	}{
		{"/nowhere/libcuda.so.1", "/nowhere/libcuda.so.1 not found: cannot open shared object file", true},
		{"libc.so.6", "libc.so.6 has no cuInit", false},
	} {
		_, err := open(c.path)
		if err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: error %v, want %q in it", c.path, err, c.text)
		}
		if errors.Is(err, errNoLibrary) != c.missing {
			t.Errorf("%s: the error is errNoLibrary: %v, want %v", c.path, !c.missing, c.missing)
		}
	}
}

// TestMostUseful: if several libraries were tried, the error is about one that exists.
func TestMostUseful(t *testing.T) {
	first, other, wrong := errors.Join(errNoLibrary), errors.Join(errNoLibrary), errors.New("too old")
	if mostUseful([]error{first, other}) != first {
		t.Error("of two missing libraries the second is reported")
	}
	if mostUseful([]error{first, wrong}) != wrong {
		t.Error("the library that was found is not reported")
	}
}

// TestErrors: Check returns nil for success, an Error with call and code for an error of package cu, and wraps any other error.
func TestErrors(t *testing.T) {
	if Check("cuMemAlloc", nil) != nil {
		t.Error("success is an error")
	}
	err := Check("cuMemAlloc", cu.OutOfMemory)
	var e *Error
	if !errors.As(err, &e) || e.Call != "cuMemAlloc" || e.Code != 2 {
		t.Fatalf("error %#v, want cuMemAlloc with code 2", err)
	}
	if text := err.Error(); !strings.Contains(text, "cuMemAlloc: CUDA") || !strings.Contains(text, "2") {
		t.Errorf("the text is %q, want the call and the code", text)
	}
	other := errors.New("something else")
	if err := Check("cuInit", other); !errors.Is(err, other) {
		t.Errorf("error %v lost its cause", err)
	}
}

// TestVersionText: the driver gives a version as 1000 times the major number plus 10 times the minor one.
func TestVersionText(t *testing.T) {
	for v, want := range map[int]string{12060: "12.6", 13000: "13.0", 9020: "9.2"} {
		if got := VersionText(v); got != want {
			t.Errorf("version %d is %q, want %q", v, got, want)
		}
	}
}

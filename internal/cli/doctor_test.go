package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"latentbeam/schemas/fault"
)

// TestDoctor: doctor checks this host and an output directory, which it does not create. With --json it prints the checks as data.
func TestDoctor(t *testing.T) {
	s := newShell(t, "file", "")
	s.says(s.run(0, "doctor"), "latentbeam "+release, "processor", "memory", "output", "CUDA", "ffmpeg",
		"nothing is broken")
	s.says(s.run(0, "doctor", "not/there/yet"), "not/there/yet, ", "put if absent", "rename without replace", "lease between hosts",
		"not/there/yet gives the guarantees that jobs need")
	s.says(s.run(1, "doctor", "file/out"), "broken   output", "latentbeam: broken: output")
	var r struct {
		OK     bool
		Checks []struct{ Name, State string }
	}
	text, _ := s.both(0, "doctor", "--json")
	if err := json.Unmarshal([]byte(text), &r); err != nil || !r.OK || len(r.Checks) < 4 {
		t.Errorf("got %+v, %v", r, err)
	}
	if s.exists("not") {
		t.Error("doctor created the directory")
	}
}

// TestDoctorEndpoint: a malformed address is a usage error, and the message names an address at which nobody listens.
func TestDoctorEndpoint(t *testing.T) {
	var out, errs bytes.Buffer
	if code := execute(t.Context(), nil, []string{"doctor", "--endpoint", "jobserver"}, &out, &errs); code != fault.ExitUsage ||
		!strings.Contains(errs.String(), "write host:port") {
		t.Errorf("a malformed address: got exit code %d: %s", code, errs.String())
	}
	errs.Reset()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if code := execute(ctx, nil, []string{"doctor", "--endpoint", "127.0.0.1:1"}, &out, &errs); code != fault.ExitTryAgain ||
		!strings.Contains(errs.String(), "no job server answers at 127.0.0.1:1") {
		t.Errorf("an address without a listener: got exit code %d: %s", code, errs.String())
	}
}

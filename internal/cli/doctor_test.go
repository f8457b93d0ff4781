package cli

import (
	"encoding/json"
	"testing"
)

func TestDoctor(t *testing.T) {
	s := newShell(t, "file", "")
	s.says(s.run(0, "doctor"), "latentbeam "+release, "processor", "memory", "output", "CUDA", "ffmpeg",
		"nothing is broken")
	s.says(s.run(0, "doctor", "not/there/yet"), "not/there/yet, ")
	s.says(s.run(1, "doctor", "file/out"), "broken   output", "latentbeam: broken: output")
	var r struct {
		OK     bool
		Checks []struct{ Name, State string }
	}
	if err := json.Unmarshal([]byte(s.run(0, "doctor", "--json")), &r); err != nil || !r.OK || len(r.Checks) < 4 {
		t.Errorf("%+v, %v", r, err)
	}
	if s.exists("not") {
		t.Error("doctor has made the directory")
	}
}

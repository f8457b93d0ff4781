package pipelines_test

import (
	"strings"
	"testing"

	"latentbeam/internal/dev/jobtest"
)

// TestOptionsOfAnEncoder: an option outside of its range is an error with its line and the possible values.
func TestOptionsOfAnEncoder(t *testing.T) {
	for option, want := range map[string]string{
		"qp: 99":            "encode_video: qp is 99: give 1 to 51",
		"qp: -1":            "encode_video: qp is -1",
		"gop: 1000":         "encode_video: gop is 1000: give 1 to 256",
		"encoder: mencoder": `encoder "mencoder" is unknown`,
	} {
		j := jobtest.NewJob(t, jobtest.RerunTable)
		j.Stages = "\n- encode_text\n- denoise\n- decode_vae\n- encode_video:\n    codec: h264\n    " + option
		_, err := j.Open()
		name, _, _ := strings.Cut(option, ":")
		if err == nil || !strings.HasPrefix(err.Error(), "job.yaml:11:") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want %q with the line of the option", name, err, want)
		}
	}
}

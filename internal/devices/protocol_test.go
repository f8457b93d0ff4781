package devices

import (
	"encoding/json"
	"errors"
	"testing"

	"latentbeam/schemas/fault"
)

// TestReplyKeepsWhatAnErrorIs: an error that a worker sends as JSON has the same class, marks and text in the process of the job.
func TestReplyKeepsWhatAnErrorIs(t *testing.T) {
	base := errors.New("boom")
	for _, err := range []error{base, fault.Retry(base), fault.Fatal(base), fault.OutOfMemory(base),
		fault.DeviceLost(base), fault.NotFinite(base), fault.Row(fault.OutOfMemory(base))} {
		text, _ := json.Marshal(Failed(err))
		var r Reply
		if e := json.Unmarshal(text, &r); e != nil {
			t.Fatal(e)
		}
		got := r.err()
		if fault.ClassOf(got) != fault.ClassOf(err) || fault.IsOutOfMemory(got) != fault.IsOutOfMemory(err) ||
			fault.IsDeviceLost(got) != fault.IsDeviceLost(err) ||
			fault.IsNotFinite(got) != fault.IsNotFinite(err) || got.Error() != "boom" {
			t.Errorf("%v of class %v, sent as %s, is received as %v of class %v", err, fault.ClassOf(err), text, got, fault.ClassOf(got))
		}
	}
	if err := (Reply{}).err(); err != nil {
		t.Errorf("a reply without an error has the error %v", err)
	}
}

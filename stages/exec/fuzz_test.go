package exec

import "testing"

// FuzzAnswer: no line of a program makes the reader of answers panic; what it takes has a type that is known.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"type": "hello", "v": 1}`))
	f.Add([]byte(`{"type": "result", "batch": 1, "key": "a", "outputs": {"frames": "x.npy"}, "readings": {"a": 1.5, "b": "c", "d": true}}`))
	f.Add([]byte(`{"type": "error", "class": "row", "message": "no", "readings": {"a": null}}`))
	f.Add([]byte(`{"type": 7}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		a, err := parseAnswer(line)
		if err == nil && a.Type == "" {
			t.Errorf("%q has no type and is taken", line)
		}
		if err != nil && len(err.Error()) > 4096+len(line) {
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
	})
}

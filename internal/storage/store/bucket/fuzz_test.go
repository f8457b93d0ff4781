package bucket

import (
	"strings"
	"testing"
	"unicode"

	"latentbeam/internal/storage/store"
	"latentbeam/schemas/objects"
)

// FuzzRecord: no bytes in a lock's object make its reader panic, and no text from them can control a terminal.
func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"owner": "run a.yaml", "pid": 12, "host": "a", "since": "2026-01-02T15:04:05Z", "token": "t", "beat": 3, "process": "b 4 5"}`))
	f.Add([]byte(`{"owner": "\u001b[2J\u009b", "pid": -1, "host": "a\nb", "free": true}`))
	f.Add([]byte(`{"pid": 1e99, "beat": null`))
	f.Add([]byte(pidNamespace() + " 1 1"))
	f.Fuzz(func(t *testing.T, text []byte) {
		there := found{record: parseRecord(text), version: objects.Version("1")}
		ownerDied(there.record)
		said := (&store.LockedError{URL: "gs://b/out", Lock: ".lock", Owner: there.Owner}).Error()
		if i := strings.IndexFunc(said, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
			t.Fatalf("%q controls a terminal", said)
		}
	})
}

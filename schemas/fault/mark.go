package fault

import (
	"fmt"
	"strings"
)

// The marks around the text of an error that goes through another program's log.
const (
	markOpens  = "[latentbeam: "
	markCloses = " :latentbeam]"
)

// Mark puts marks around the text of err, by which Marked finds it in whatever another program wraps it in. An error
// that is nil or has marks stays as it is.
func Mark(err error) error {
	if err == nil || strings.Contains(err.Error(), markOpens) {
		return err
	}
	return fmt.Errorf("%s%w%s", markOpens, err, markCloses)
}

// Marked returns what stands between the marks of a text, "" where there are none.
func Marked(text string) string {
	_, rest, found := strings.Cut(text, markOpens)
	reason, _, closed := strings.Cut(rest, markCloses)
	if !found || !closed {
		return ""
	}
	return reason
}

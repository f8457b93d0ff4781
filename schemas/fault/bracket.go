package fault

import (
	"fmt"
	"strings"
)

// The brackets around the text of an error that goes through another program's log.
const (
	bracketOpens  = "[latentbeam: "
	bracketCloses = " :latentbeam]"
)

// Bracket puts brackets around the text of err. Bracketed finds the text between them, even if another program has put it
// into a text of its own. An error that is nil or has brackets stays as it is.
func Bracket(err error) error {
	if err == nil || strings.Contains(err.Error(), bracketOpens) {
		return err
	}
	return fmt.Errorf("%s%w%s", bracketOpens, err, bracketCloses)
}

// Bracketed returns the part of a text between the brackets, "" where there are none.
func Bracketed(text string) string {
	_, rest, found := strings.Cut(text, bracketOpens)
	reason, _, closed := strings.Cut(rest, bracketCloses)
	if !found || !closed {
		return ""
	}
	return reason
}

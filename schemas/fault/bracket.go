package fault

import (
	"fmt"
	"strings"
)

// The brackets around the text of an error that passes through the log of another program.
const (
	bracketOpens  = "[latentbeam: "
	bracketCloses = " :latentbeam]"
)

// Bracket puts brackets around the text of err, so that Bracketed finds it inside a longer text of another program. An error
// that is nil or has brackets already is returned unchanged.
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

package document

import (
	"fmt"
	"regexp"
	"strings"
)

// ExitCode is what the program ends with when the configuration or the input's form is wrong (design D8).
const ExitCode = 2

// excerptRunes is how much of a line a message shows.
const excerptRunes = 100

// userPart and queryPart are what an address may hold of credentials. No message shows them.
var (
	userPart  = regexp.MustCompile(`://[^\s"'@]*@`)
	queryPart = regexp.MustCompile(`(://[^\s"'?]*\?)[^\s"']*`)
)

// shown is a line without credentials.
func shown(line string) string {
	return queryPart.ReplaceAllString(userPart.ReplaceAllString(line, "://[...]@"), "$1[...]")
}

// Text is a text with positions: a configuration file, a preset or a flag.
type Text struct {
	Name string // path, preset or flag
	Text []byte
}

func (s *Text) line(n int) string {
	if s == nil || n < 1 {
		return ""
	}
	lines := strings.Split(string(s.Text), "\n")
	if n > len(lines) {
		return ""
	}
	return strings.TrimRight(lines[n-1], "\r")
}

// Position is a place in a configuration file, or the --set flag that a value came from.
type Position struct {
	File   string // used when the place is in a file that is not a configuration
	Line   int    // from 1; 0 means the whole file
	Column int    // from 1
	Flag   string // "--set output.path=x", then there is no line
	Source *Text
	Over   *Position // what the flag took the place of in the file, nil where there was nothing
}

// String is "file:line:column", less where less is known.
func (p Position) String() string {
	name := p.File
	if p.Source != nil {
		name = p.Source.Name
	}
	switch {
	case p.Flag != "":
		return shown(p.Flag)
	case p.Line == 0:
		return name
	case p.Column == 0:
		return fmt.Sprintf("%s:%d", name, p.Line)
	}
	return fmt.Sprintf("%s:%d:%d", name, p.Line, p.Column)
}

// excerpt shows the line of p, the one above, and a caret below; "" where there is no line to show.
func (p Position) excerpt() string {
	if p.Over != nil {
		return fmt.Sprintf("  in place of %s\n%s", p.Over, p.Over.excerpt())
	}
	if p.Source == nil || p.Flag != "" || p.Line < 1 {
		return ""
	}
	var b strings.Builder
	for n := max(1, p.Line-1); n <= p.Line; n++ {
		fmt.Fprintf(&b, "  %4d | %s\n", n, Clip(strings.ReplaceAll(shown(p.Source.line(n)), "\t", " "), excerptRunes))
	}
	if p.Column > 0 && p.Column <= excerptRunes {
		fmt.Fprintf(&b, "       | %s^\n", strings.Repeat(" ", p.Column-1))
	}
	return b.String()
}

// Problem is one thing that is wrong, where, and what to do about it.
type Problem struct {
	Pos     Position
	Message string
	Fix     string // one sentence, may be ""
}

// Error is everything that is wrong with a configuration, or with the form of an input that it names. A
// program that ends on it exits with ExitCode.
type Error struct {
	Problems []Problem
}

// NewError is an Error with one problem.
func NewError(pos Position, format string, args ...any) *Error {
	return &Error{Problems: []Problem{{Pos: pos, Message: fmt.Sprintf(format, args...)}}}
}

// WithFix says what to do about the last problem. It returns the error for chaining.
func (e *Error) WithFix(format string, args ...any) *Error {
	if n := len(e.Problems); n > 0 {
		e.Problems[n-1].Fix = fmt.Sprintf(format, args...)
	}
	return e
}

// ExitCode is the exit code of a program that ends on the error.
func (e *Error) ExitCode() int { return ExitCode }

// Error lists the problems, each with its place, an excerpt and the fix.
func (e *Error) Error() string {
	var b strings.Builder
	for i, p := range e.Problems {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s: %s\n%s", p.Pos, p.Message, p.Pos.excerpt())
		if p.Fix != "" {
			fmt.Fprintf(&b, "  fix: %s\n", p.Fix)
		}
	}
	return strings.TrimRight(b.String(), "\n")
}

// Add notes one more problem.
func (e *Error) Add(pos Position, message, fix string) {
	e.Problems = append(e.Problems, Problem{Pos: pos, Message: message, Fix: fix})
}

// OrNil keeps a nil *Error from becoming a non-nil error.
func (e *Error) OrNil() error {
	if e == nil || len(e.Problems) == 0 {
		return nil
	}
	return e
}

package document

import (
	"fmt"
	"regexp"
	"strings"
)

// ExitCode is the exit code of the program if the configuration or the form of an input is wrong.
const ExitCode = 2

// excerptRunes limits how many characters of a line a message shows.
const excerptRunes = 100

// userPart and queryPart match the parts of an address that can contain credentials. No message shows them.
var (
	userPart  = regexp.MustCompile(`://[^\s"'@]*@`)
	queryPart = regexp.MustCompile(`(://[^\s"'?]*\?)[^\s"']*`)
)

// redact returns a line without credentials.
func redact(line string) string {
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
	File     string // name of a file that is not a configuration; Source is nil then
	Line     int    // from 1; 0 means the whole file
	Column   int    // from 1
	Flag     string // such as "--set output.path=x"; Line is 0 then
	Source   *Text
	Replaced *Position // the value in the file that the flag replaces; nil: none
}

// String returns "file:line:column", without the parts that are not known.
func (p Position) String() string {
	name := p.File
	if p.Source != nil {
		name = p.Source.Name
	}
	switch {
	case p.Flag != "":
		return redact(p.Flag)
	case p.Line == 0:
		return name
	case p.Column == 0:
		return fmt.Sprintf("%s:%d", name, p.Line)
	}
	return fmt.Sprintf("%s:%d:%d", name, p.Line, p.Column)
}

// excerpt returns the line of p, the line above it, and a caret below; "" if p has no line.
func (p Position) excerpt() string {
	if p.Replaced != nil {
		return fmt.Sprintf("  in place of %s\n%s", p.Replaced, p.Replaced.excerpt())
	}
	if p.Source == nil || p.Flag != "" || p.Line < 1 {
		return ""
	}
	var b strings.Builder
	for n := max(1, p.Line-1); n <= p.Line; n++ {
		fmt.Fprintf(&b, "  %4d | %s\n", n, Clip(strings.ReplaceAll(redact(p.Source.line(n)), "\t", " "), excerptRunes))
	}
	if p.Column > 0 && p.Column <= excerptRunes {
		fmt.Fprintf(&b, "       | %s^\n", strings.Repeat(" ", p.Column-1))
	}
	return b.String()
}

// Problem is one mistake: its place, a message, and what to do about it.
type Problem struct {
	Pos     Position
	Message string
	Fix     string // one sentence, may be ""
}

// Error holds all problems of a configuration, or of the form of an input that it names. A
// program that ends with it exits with ExitCode.
type Error struct {
	Problems []Problem
}

// NewError returns an Error with one problem.
func NewError(pos Position, format string, args ...any) *Error {
	return &Error{Problems: []Problem{{Pos: pos, Message: fmt.Sprintf(format, args...)}}}
}

// WithFix sets what to do about the last problem. It returns e for chaining.
func (e *Error) WithFix(format string, args ...any) *Error {
	if n := len(e.Problems); n > 0 {
		e.Problems[n-1].Fix = fmt.Sprintf(format, args...)
	}
	return e
}

// ExitCode returns the exit code of a program that ends with the error.
func (e *Error) ExitCode() int { return ExitCode }

// Error formats the problems, each with its place, an excerpt and the fix.
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

// Add adds a problem.
func (e *Error) Add(pos Position, message, fix string) {
	e.Problems = append(e.Problems, Problem{Pos: pos, Message: message, Fix: fix})
}

// OrNil returns e as an error, or a nil error if there are no problems. A nil *Error in an error interface would not be nil.
func (e *Error) OrNil() error {
	if e == nil || len(e.Problems) == 0 {
		return nil
	}
	return e
}

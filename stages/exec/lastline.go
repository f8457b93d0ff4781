package exec

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"sync"
)

// lastLine is the last line that a program printed. If the line ends a Python traceback, it includes the position in the user's
// own code.
type lastLine struct {
	sync.Mutex
	text  string
	trace bool   // inside a traceback
	place string // position in the user's own code; "": not known
}

// frame matches a line of a traceback; libraries matches code that is not the user's own.
var (
	frame     = regexp.MustCompile(`^\s+File "([^"]+)", line (\d+)`)
	libraries = regexp.MustCompile(`^<|/(site|dist)-packages/|/lib/python3|/latentbeam_stage`)
)

func (l *lastLine) set(line string) {
	const most = 300
	l.Lock()
	defer l.Unlock()
	if found := frame.FindStringSubmatch(line); found != nil {
		if !l.trace {
			l.trace, l.place = true, ""
		}
		if !libraries.MatchString(found[1]) {
			l.place = fmt.Sprintf(" (%s, line %s)", path.Base(found[1]), found[2])
		}
	}
	text := strings.TrimSpace(line)
	l.text = text[:min(len(text), most)]
	if l.trace && line[0] != ' ' && line[0] != '\t' {
		l.text += l.place
		l.trace = false
	}
}

// clear forgets the line, because later output concerns something else.
func (l *lastLine) clear() {
	l.Lock()
	defer l.Unlock()
	l.text, l.trace = "", false
}

func (l *lastLine) get() string {
	l.Lock()
	defer l.Unlock()
	return l.text
}

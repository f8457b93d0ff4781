package exec

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"sync"
)

// lastLine is the last line that a program printed. Where it ends a traceback of Python, the place in the user's own code
// is added.
type lastLine struct {
	sync.Mutex
	text  string
	trace bool   // lines of a traceback come
	place string // in the user's own code; "": none is known
}

// frame is a line of a traceback; libraries are what is not the user's own.
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

// clear forgets the line: what comes is about something else.
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

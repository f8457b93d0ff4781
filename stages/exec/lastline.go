package exec

import "sync"

// lastLine is the last line that a program printed.
type lastLine struct {
	sync.Mutex
	text string
}

func (l *lastLine) set(text string) {
	const most = 300
	l.Lock()
	defer l.Unlock()
	l.text = text[:min(len(text), most)]
}

func (l *lastLine) get() string {
	l.Lock()
	defer l.Unlock()
	return l.text
}

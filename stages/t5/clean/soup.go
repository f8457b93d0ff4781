package clean

import "strings"

// soup collects the text of a document as Beautiful Soup's tree does. Comments, declarations and the content of some elements
// are not text. White space between two tags becomes one character if there is no other text.
type soup struct {
	out     strings.Builder
	pending []byte
	waiting bool           // something was added to pending, perhaps an empty string
	open    []string       // names of the open elements
	count   map[string]int // how often each name is in open
	hidden  int            // number of open elements whose text is hidden
	exact   int            // number of open elements whose white space is kept
}

var (
	voidElements = setOfNames("area base basefont bgsound br col command embed frame hr image img input " +
		"isindex keygen link menuitem meta nextid param source spacer track wbr")
	hiddenElements = setOfNames("rt rp style script template")
	exactElements  = setOfNames("pre textarea")
)

func setOfNames(names string) map[string]bool {
	set := map[string]bool{}
	for _, n := range strings.Fields(names) {
		set[n] = true
	}
	return set
}

func newSoup() *soup { return &soup{count: map[string]int{}} }

func (s *soup) add(data string) {
	s.pending = append(s.pending, data...)
	s.waiting = true
}

// flush ends a piece of text. The text is kept if shown.
func (s *soup) flush(shown bool) {
	if !s.waiting {
		return
	}
	data := string(s.pending)
	if s.exact == 0 && strings.Trim(data, " \n\t\f\r") == "" {
		if strings.Contains(data, "\n") {
			data = "\n"
		} else {
			data = " "
		}
	}
	if shown {
		s.out.WriteString(data)
	}
	s.pending, s.waiting = s.pending[:0], false
}

func (s *soup) flushText() { s.flush(s.hidden == 0) }

// addHidden adds a comment, declaration or instruction: it only ends the text before it.
func (s *soup) addHidden() { s.flushText() }

// addCharacters adds a CDATA section. It is text even inside hidden elements.
func (s *soup) addCharacters(data string) {
	s.flushText()
	s.add(data)
	s.flush(true)
}

// start opens an element. A void element is closed at once.
func (s *soup) start(name string) {
	s.push(name)
	if voidElements[name] {
		s.closeElement(name)
	}
}

// startAndEnd is <name/>.
func (s *soup) startAndEnd(name string) {
	s.push(name)
	s.closeElement(name)
}

func (s *soup) push(name string) {
	s.flushText()
	s.open = append(s.open, name)
	s.count[name]++
	s.enter(name, 1)
}

func (s *soup) enter(name string, by int) {
	if hiddenElements[name] {
		s.hidden += by
	}
	if exactElements[name] {
		s.exact += by
	}
}

// closeElement closes the innermost open element with this name and all elements inside it. If there is none, it only ends the
// text.
func (s *soup) closeElement(name string) {
	s.flushText()
	for s.count[name] > 0 {
		last := s.open[len(s.open)-1]
		s.open = s.open[:len(s.open)-1]
		s.count[last]--
		s.enter(last, -1)
		if last == name {
			return
		}
	}
}

func (s *soup) text() string {
	s.flushText()
	return s.out.String()
}

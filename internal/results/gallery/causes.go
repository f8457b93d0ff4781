package gallery

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// What a page lists of failed rows. The failures table has all of them.
const (
	maxCauses  = 40      // causes that are told apart
	maxListed  = 100     // rows of a cause
	maxMessage = 1 << 10 // bytes of a row's reason
	maxQuoted  = 256     // bytes of a row's prompt
)

// Failure is one failed row.
type Failure struct {
	ID     string // "" where the row has none
	Source string // "shapes.csv:17"
	Prompt string
	Reason string
}

// Causes groups failed rows by class, stage and reason. Two reasons are one where they differ in numbers and quoted
// texts alone. Its memory is bounded, whatever the number of rows. The zero value is empty.
type Causes struct {
	Total  int
	Others int // rows of causes beyond the first maxCauses
	groups map[string]*cause
	order  []*cause
}

type cause struct {
	Class, Stage string
	Count        int
	Listed       []Failure
	first        string   // the reason of the first row
	values       []string // what may vary in it
	varies       []bool   // which of the values do
}

// value is what may differ between two reasons of one cause: a quoted text, a number, a name of 8 or more hex digits.
var value = regexp.MustCompile("\"(?:[^\"\\\\]|\\\\.)*\"|\\b[0-9a-f]{8,}\\b|-?[0-9]+(?:\\.[0-9]+)?")

// Add adds a row that failed.
func (c *Causes) Add(class, stage string, f Failure) {
	c.Total++
	f.Reason = strings.TrimPrefix(f.Reason, f.Source+": ") // the row says it
	f.Reason, f.Prompt = cut(clean(f.Reason), maxMessage), cut(clean(f.Prompt), maxQuoted)
	values := value.FindAllString(f.Reason, -1)
	key := class + "\x00" + stage + "\x00" + value.ReplaceAllLiteralString(f.Reason, "\x00")
	g := c.groups[key]
	if g == nil {
		if len(c.order) == maxCauses {
			c.Others++
			return
		}
		g = &cause{Class: class, Stage: stage, first: f.Reason, values: values, varies: make([]bool, len(values))}
		if c.groups == nil {
			c.groups = map[string]*cause{}
		}
		c.groups[key] = g
		c.order = append(c.order, g)
	}
	g.Count++
	for i, v := range values {
		g.varies[i] = g.varies[i] || v != g.values[i]
	}
	if len(g.Listed) < maxListed {
		f.ID, f.Source = clean(f.ID), clean(f.Source)
		g.Listed = append(g.Listed, f)
	}
}

// reason is that of the first row, with "…" for what differs among the rows.
func (g *cause) reason() string {
	i := -1
	return value.ReplaceAllStringFunc(g.first, func(v string) string {
		if i++; g.varies[i] {
			return "…"
		}
		return v
	})
}

// Cause is a reason for which rows failed.
type Cause struct {
	Class, Stage, Reason string
	Count                int // rows
}

// List lists the causes that were told apart, those of most rows first.
func (c *Causes) List() []Cause {
	var out []Cause
	for _, g := range c.sorted() {
		out = append(out, Cause{g.Class, g.Stage, g.reason(), g.Count})
	}
	if c.Others > 0 {
		out = append(out, Cause{Reason: "other reasons", Count: c.Others})
	}
	return out
}

func (c *Causes) sorted() []*cause {
	order := slices.Clone(c.order)
	slices.SortStableFunc(order, func(a, b *cause) int { return cmp.Compare(b.Count, a.Count) })
	return order
}

// shownCause is a cause as the page lists it.
type shownCause struct {
	Class, Stage, Reason, Rows string
	Open                       bool
	Listed                     []Failure
	More                       string // "and 900 more rows", "" where all are listed
}

// shown are the causes, those of most rows first.
func (c *Causes) shown() []shownCause {
	var out []shownCause
	for _, g := range c.sorted() {
		s := shownCause{Class: clean(g.Class), Stage: clean(g.Stage), Reason: g.reason(),
			Rows: plural(g.Count, "row"), Open: g.Count <= 3, Listed: slices.Clone(g.Listed)}
		for i := range s.Listed {
			if s.Listed[i].Reason == s.Reason {
				s.Listed[i].Reason = "" // the group says it
			}
		}
		if more := g.Count - len(g.Listed); more > 0 {
			s.More = "and " + plural(more, "more row")
		}
		out = append(out, s)
	}
	return out
}

// cut shortens a text to at most n bytes, at a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

package gallery

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// Limits of the failed rows on a page. The failures table has all rows.
const (
	maxCauses  = 40      // number of different causes
	maxListed  = 100     // listed rows per cause
	maxMessage = 1 << 10 // bytes of a row's reason
	maxQuoted  = 256     // bytes of a row's prompt
)

// Failure is one failed row.
type Failure struct {
	ID     string // "": the row has none
	Source string // place in the input, "shapes.csv:17"
	Prompt string
	Reason string
}

// Causes groups failed rows by class, stage and reason. Reasons that differ only in numbers and quoted texts count as
// equal. The memory is limited, whatever the number of rows. The zero value is empty.
type Causes struct {
	Total  int
	Others int // rows of further causes, after the first maxCauses
	groups map[string]*cause
	order  []*cause // in the order of their first rows
}

// cause is a group of failed rows.
type cause struct {
	Class, Stage string
	Count        int
	Listed       []Failure
	first        string   // reason of the first row
	values       []string // numbers and quoted texts in it
	varies       []bool   // which of the values differ between rows
}

// value matches the parts in which reasons of one cause may differ: a quoted text, a number, or 8 or more hex digits.
var value = regexp.MustCompile("\"(?:[^\"\\\\]|\\\\.)*\"|\\b[0-9a-f]{8,}\\b|-?[0-9]+(?:\\.[0-9]+)?")

// Add adds a row that failed.
func (c *Causes) Add(class, stage string, f Failure) {
	c.Total++
	f.Reason = strings.TrimPrefix(f.Reason, f.Source+": ") // the page shows Source separately
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

// reason returns the reason of the first row, with "…" in place of values that differ between rows.
func (g *cause) reason() string {
	i := -1
	return value.ReplaceAllStringFunc(g.first, func(v string) string {
		if i++; g.varies[i] {
			return "…"
		}
		return v
	})
}

// Cause is a reason of failures and the number of its rows.
type Cause struct {
	Class, Stage, Reason string
	Count                int // rows
}

// List returns the causes in descending order of their rows. The last one sums up the rows of further causes.
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

// sorted returns the causes in descending order of their rows.
func (c *Causes) sorted() []*cause {
	order := slices.Clone(c.order)
	slices.SortStableFunc(order, func(a, b *cause) int { return cmp.Compare(b.Count, a.Count) })
	return order
}

// shownCause is a cause in the form that the page shows.
type shownCause struct {
	Class, Stage, Reason, Rows string
	Open                       bool
	Listed                     []Failure
	More                       string // "and 900 more rows"; "": all rows are listed
}

// shown returns the causes for the page, in descending order of their rows.
func (c *Causes) shown() []shownCause {
	var out []shownCause
	for _, g := range c.sorted() {
		s := shownCause{Class: clean(g.Class), Stage: clean(g.Stage), Reason: g.reason(),
			Rows: plural(g.Count, "row"), Open: g.Count <= 3, Listed: slices.Clone(g.Listed)}
		for i := range s.Listed {
			if s.Listed[i].Reason == s.Reason {
				s.Listed[i].Reason = "" // the cause shows it
			}
		}
		if more := g.Count - len(g.Listed); more > 0 {
			s.More = "and " + plural(more, "more row")
		}
		out = append(out, s)
	}
	return out
}

// cut shortens a text to at most n bytes, at the end of a character, and appends "…".
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

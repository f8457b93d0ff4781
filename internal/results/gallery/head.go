package gallery

import (
	"crypto/sha256"
	_ "embed" // the page's parts
	"encoding/base64"
	"fmt"
	"html/template"
	"time"
)

// Parts of a page. The scripts become one module in the page and share one scope.
var (
	//go:embed assets/page.html
	pageHTML string
	//go:embed assets/page.css
	pageCSS string
	//go:embed assets/rows.js
	rowsJS string
	//go:embed assets/grid.js
	gridJS string
	//go:embed assets/play.js
	playJS string
	//go:embed assets/filter.js
	filterJS string
	//go:embed assets/rate.js
	rateJS string
	//go:embed assets/viewer.js
	viewerJS string
	//go:embed assets/unfinished.js
	unfinishedJS string
)

var (
	page   = template.Must(template.New("page").Parse(pageHTML))
	script = rowsJS + gridJS + playJS + filterJS + rateJS + viewerJS
)

// head holds the values of the page's template.
type head struct {
	Title, Heading string
	Policy         string // Content-Security-Policy; only the page's own script can run, whatever a prompt contains
	Style          template.CSS
	Script         template.JS
	Facts          []shownDetail
	Number, Pages  int
	Total          int
	Range          string // "501–1,000 of 1,200 videos"
	Noun           string // name for an item
	First          string // name of the first page, which lists the failed rows
	Prev, Next     string // names of the neighbouring pages; "": none
	Steps          []pagerStep
	Failed         *shownFailures // nil: none, or not on this page
	FailedTotal    int
	Unfinished     *shownUnfinished // nil: the job has ended
}

// shownUnfinished is what a page shows of a running job.
type shownUnfinished struct {
	Left    string // unsettled rows, "7 rows"
	Written string // time in RFC 3339
	Again   int    // seconds until the next version
}

// shownFailures is what the first page shows of failed rows.
type shownFailures struct {
	Summary, Table string // Table is a URL; "": none
	Causes         []shownCause
	Others         string // "5 rows with other reasons"
}

// shownDetail is a Detail with its link as a URL.
type shownDetail struct {
	Name, Value, URL string
}

// pagerStep is a page's number in the pager. It is a gap if URL is empty.
type pagerStep struct {
	Label, URL string
	Current    bool
}

// newHead returns the values of a page's template.
func newHead(p *Page) (*head, error) {
	facts, err := shownDetails(p.Facts)
	if err != nil {
		return nil, fmt.Errorf("facts: %w", err)
	}
	text := script
	if p.Unfinished != nil {
		text += unfinishedJS
	}
	h := &head{
		Title: clean(p.Title), Heading: clean(p.Title), Facts: facts,
		Policy: policy(text), Style: template.CSS(pageCSS), Script: template.JS(text),
		Number: p.Number, Pages: p.Pages, Total: p.Total, Range: rangeText(p), Noun: p.noun(), Steps: pagerSteps(p.Number, p.Pages, p.name),
	}
	if u := p.Unfinished; u != nil {
		h.Unfinished = &shownUnfinished{plural(int(u.Left), "row"), u.Written.UTC().Format(time.RFC3339),
			max(1, int(u.Again.Round(time.Second).Seconds()))}
	}
	if p.Pages > 1 {
		h.Title = fmt.Sprintf("%s, page %s of %s", h.Heading, grouped(p.Number), grouped(p.Pages))
	}
	if h.First, err = link(p.name(1)); err != nil {
		return nil, fmt.Errorf("prefix: %w", err)
	}
	if h.Failed, err = newFailures(p); err != nil {
		return nil, err
	}
	if p.Failed != nil {
		h.FailedTotal = p.Failed.Total
	}
	if p.Number > 1 {
		h.Prev = p.name(p.Number - 1)
	}
	if p.Number < p.Pages {
		h.Next = p.name(p.Number + 1)
	}
	return h, nil
}

// newFailures returns the failed rows for the first page; nil: none, or another page.
func newFailures(p *Page) (*shownFailures, error) {
	if p.Failed == nil || p.Failed.Total == 0 || p.Number > 1 {
		return nil, nil
	}
	s := &shownFailures{Causes: p.Failed.shown()}
	s.Summary = plural(p.Failed.Total, "row") + " failed"
	if n := len(s.Causes); n > 1 {
		s.Summary += ", for " + plural(n, "reason")
	}
	if n := p.Failed.Others; n > 0 {
		s.Others = plural(n, "row") + " with other reasons"
	}
	if p.Table == "" {
		return s, nil
	}
	var err error
	if s.Table, err = link(p.Table); err != nil {
		return nil, fmt.Errorf("failures table: %w", err)
	}
	return s, nil
}

// policy returns a Content-Security-Policy that allows only this script, by hash, and no requests except for media that the page's
// elements show.
func policy(script string) string {
	sum := sha256.Sum256([]byte(script))
	return "script-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; connect-src 'none'; object-src 'none'; frame-src 'none'; base-uri 'none'; form-action 'none'"
}

// rangeText returns the range of items on a page, such as "501–1,000 of 1,200 videos".
func rangeText(p *Page) string {
	if p.Pages == 1 {
		return plural(p.Total, p.noun())
	}
	first := (p.Number-1)*PageSize + 1
	return fmt.Sprintf("%s–%s of %s", grouped(first), grouped(first+p.expected()-1), plural(p.Total, p.noun()))
}

// pagerSteps returns the steps of the pager: the first page, the last page, the pages around number, and gaps.
func pagerSteps(number, pages int, name func(n int) string) []pagerStep {
	const around = 2
	var steps []pagerStep
	last := 0
	for n := 1; n <= pages; n++ {
		if n != 1 && n != pages && (n < number-around || n > number+around) {
			continue
		}
		if n > last+1 {
			steps = append(steps, pagerStep{Label: "…"})
		}
		steps = append(steps, pagerStep{Label: grouped(n), URL: name(n), Current: n == number})
		last = n
	}
	return steps
}

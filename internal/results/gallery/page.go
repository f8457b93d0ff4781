package gallery

import (
	"cmp"
	"fmt"
	"io/fs"
	"iter"
	"net/url"
	"time"
)

// PageSize is the maximal number of items on a page: about four megabytes, which a browser parses in a quarter of a second. The
// page renders only the cards near the view, so the number affects loading and not scrolling.
const PageSize = 10_000

// Detail is a named value. A page shows details in the given order. Link is the relative slash-separated
// path to which the value links; "": none.
type Detail struct {
	Name, Value, Link string
}

// MarkedName is the name of the detail for files with marks of synthetic media. Cards show a sign for it (assets/rows.js).
const MarkedName = "Marked as synthetic"

// Item is one video or still image of a run.
type Item struct {
	ID     string // id of the row; "": none
	Source string // place of the row in the input, without directories: "shapes.csv:17"
	Prompt string // any text; may be empty
	Video  string // relative slash-separated path of the mp4 or png; items with the same path are duplicates
	// Outside is the URL of a video outside of the gallery's folder, used instead of Video; "": the video is in the folder.
	Outside string
	// Unseen says that a browser cannot show the item. It has neither Video nor Outside.
	Unseen bool
	Poster string // relative slash-separated path of a jpeg; "": none

	Width, Height int     // pixels
	NumFrames     int     // 1 for a still image
	FPS           float64 // frames per second; 0: not known
	Seed          int64
	Unseeded      bool    // the item has no seed, so Seed is ignored
	Sample        int     // number of the video among the videos of its row, from 0
	Steps         int     // 0: not known
	Guidance      float64 // 0: not known
	Model         string
	Key           string // "": the name of the video's file is the key

	Details []Detail // further facts; the page has a filter for names with few values
}

// Page is one page of a gallery.
type Page struct {
	Title  string
	Prefix string // prefix of the file names of all pages, so that several galleries can share a directory
	Number int    // from 1
	Pages  int    // number of pages, PageCount(Total)
	Total  int    // number of items on all pages
	Noun   string // name for an item, such as "clip"; "": video
	Facts  []Detail
	Failed *Causes                // failed rows, shown on the first page; nil: none
	Table  string                 // relative path of the failures table; "": none
	Items  iter.Seq2[Item, error] // at most PageSize items; the first error ends the page
	// Unfinished says that the job still runs; nil: it has ended.
	Unfinished *Unfinished
}

// Unfinished is what a page shows of a running job.
type Unfinished struct {
	Left    int64         // number of unsettled rows
	Written time.Time     // time at which the page was written
	Again   time.Duration // time until the next version of the page
}

// PageCount returns the number of pages for total items. It is at least 1, so that an empty run has a page
// too.
func PageCount(total int) int {
	return max(1, (total+PageSize-1)/PageSize)
}

// PageName returns the file name of page n, counted from 1: index.html, index-2.html, index-3.html.
func PageName(n int) string {
	if n <= 1 {
		return "index.html"
	}
	return fmt.Sprintf("index-%d.html", n)
}

// noun returns the name for an item.
func (p *Page) noun() string { return cmp.Or(p.Noun, "video") }

// name returns the file name of page n of this gallery.
func (p *Page) name(n int) string { return p.Prefix + PageName(n) }

func (p *Page) validate() error {
	if p.Total < 0 || p.Pages != PageCount(p.Total) || p.Number < 1 || p.Number > p.Pages {
		return fmt.Errorf("page %d of %d with %d items in all: want pages 1 to %d",
			p.Number, p.Pages, p.Total, PageCount(max(0, p.Total)))
	}
	if p.Items == nil {
		return fmt.Errorf("page %d has no items to read", p.Number)
	}
	return nil
}

// expected returns the number of items that belong on the page.
func (p *Page) expected() int {
	return min(PageSize, p.Total-(p.Number-1)*PageSize)
}

func (it *Item) validate() error {
	if it.Width < 1 || it.Height < 1 || it.NumFrames < 1 {
		return fmt.Errorf("%d frames of %dx%d pixels: want each at least 1", it.NumFrames, it.Width, it.Height)
	}
	return nil
}

// link returns the URL of a relative path. It escapes "#", "?" and "%" in names. A path that leaves the gallery's folder is an
// error.
func link(path string) (string, error) {
	if !fs.ValidPath(path) || path == "." {
		return "", fmt.Errorf("path %q: want a relative path with slashes inside the gallery's folder", path)
	}
	return (&url.URL{Path: path}).String(), nil
}

package gallery

import (
	"cmp"
	"fmt"
	"io/fs"
	"iter"
	"net/url"
	"time"
)

// PageSize is the most items a page holds: about four megabytes, which a browser reads in a quarter of a second. The
// page draws only the cards near the view, so its size matters for reading and not for scrolling.
const PageSize = 10_000

// Detail is a named value, shown in the order given. Link, where not empty, is a relative slash-separated
// path that the value leads to.
type Detail struct {
	Name, Value, Link string
}

// MarkedName names the detail of a file that carries marks of synthetic media. Cards show a sign for it (assets/rows.js).
const MarkedName = "Marked as synthetic"

// Item is one video or still image of a run.
type Item struct {
	ID     string // the row's id, "" where it has none
	Source string // where the row stands, without directories: "shapes.csv:17"
	Prompt string // any text; may be empty
	Video  string // relative slash-separated path of the mp4 or png; items with one path are duplicates
	// Outside is the URL of a video that lies elsewhere, in place of Video; "": it is in the gallery's folder.
	Outside string
	// Unseen says that a browser cannot show the item. It has neither Video nor Outside.
	Unseen bool
	Poster string // relative slash-separated path of a jpeg, "" where there is none

	Width, Height int     // pixels
	NumFrames     int     // 1 for a still image
	FPS           float64 // frames per second, 0 where unknown
	Seed          int64
	Unseeded      bool    // nothing was drawn for it, and Seed says nothing
	Sample        int     // number of the video among those of its row, from 0
	Steps         int     // 0 where unknown
	Guidance      float64 // 0 where unknown
	Model         string
	Key           string // "" where it is the name of the video's file

	Details []Detail // what else is known of it; a name with few values can be filtered by
}

// Page is one page of a gallery.
type Page struct {
	Title  string
	Prefix string // put before the file name of every page, so that several galleries share a directory
	Number int    // from 1
	Pages  int    // pages in all, PageCount(Total)
	Total  int    // items on all pages
	Noun   string // of an item, such as "clip"; "": video
	Facts  []Detail
	Failed *Causes                // the rows that failed, shown on the first page; nil: none
	Table  string                 // relative path of the table of all failed rows, "" where there is none
	Items  iter.Seq2[Item, error] // at most PageSize; the first error ends the page
	// Unfinished says that the job still runs; nil: it has ended.
	Unfinished *Unfinished
}

// Unfinished is what a page says of a job that runs.
type Unfinished struct {
	Left    int64         // rows to be done
	Written time.Time     // when the page was written
	Again   time.Duration // after which the page may be another
}

// PageCount is the number of pages that total items fill: at least one, so that an empty run has its page
// too.
func PageCount(total int) int {
	return max(1, (total+PageSize-1)/PageSize)
}

// PageName is the file name of page n, counted from 1: index.html, index-2.html, index-3.html.
func PageName(n int) string {
	if n <= 1 {
		return "index.html"
	}
	return fmt.Sprintf("index-%d.html", n)
}

// noun is what an item is called.
func (p *Page) noun() string { return cmp.Or(p.Noun, "video") }

// name is the file name of page n of this gallery.
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

// expected is the number of items that belong on the page.
func (p *Page) expected() int {
	return min(PageSize, p.Total-(p.Number-1)*PageSize)
}

func (it *Item) validate() error {
	if it.Width < 1 || it.Height < 1 || it.NumFrames < 1 {
		return fmt.Errorf("%d frames of %dx%d pixels: want each at least 1", it.NumFrames, it.Width, it.Height)
	}
	return nil
}

// link is the URL of a relative path. Paths are escaped segment by segment, so "#", "?" and "%" in a name
// stay part of it; a path that leaves the gallery's folder is refused.
func link(path string) (string, error) {
	if !fs.ValidPath(path) || path == "." {
		return "", fmt.Errorf("path %q: want a relative path with slashes inside the gallery's folder", path)
	}
	return (&url.URL{Path: path}).String(), nil
}

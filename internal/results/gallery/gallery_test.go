package gallery

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"testing"
)

func sequence(items []Item) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		for _, item := range items {
			if !yield(item, nil) {
				return
			}
		}
	}
}

// numbered yields n simple items.
func numbered(n int) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		for i := range n {
			item := plainItem()
			item.ID = fmt.Sprintf("row-%06d", i)
			item.Prompt = fmt.Sprintf("a red circle moving left, number %d", i)
			if !yield(item, nil) {
				return
			}
		}
	}
}

func plainItem() Item {
	return Item{
		ID: "row-1", Prompt: "a red circle moving left", Video: "videos/ab/abcd.mp4", Poster: "posters/ab/abcd.jpg",
		Source: "p.csv:2", Width: 64, Height: 64, NumFrames: 16, FPS: 8, Seed: 42, Steps: 20, Guidance: 7.5, Model: "tiny",
		Details: []Detail{{Name: "color", Value: "red"}},
	}
}

func onePage(items ...Item) Page {
	return Page{Title: "Run", Number: 1, Pages: 1, Total: len(items), Items: sequence(items)}
}

func render(t *testing.T, p Page) string {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, p); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestPageIsTheSameTwice: equal items give equal pages. internal/dev/same compares the text of pages with earlier versions.
func TestPageIsTheSameTwice(t *testing.T) {
	still := plainItem()
	still.ID, still.Prompt, still.Video, still.Poster = "", "", "videos/cd/cdef.png", ""
	still.Width, still.Height, still.NumFrames, still.FPS = 512, 288, 1, 0
	p := onePage(plainItem(), still)
	p.Facts = []Detail{{Name: "Model", Value: "tiny"}, {Name: "Failed", Value: "1", Link: "tables/failures/0.parquet"}}
	p.Failed, p.Table = new(Causes), "tables/failures/0.parquet"
	p.Failed.Add("row", "read", Failure{ID: "r7", Source: "p.csv:7", Prompt: "a <b>", Reason: `seed: "x" is no number`})
	p.Failed.Add("panic", "denoise", Failure{Source: "p.csv:9", Reason: "it broke"})
	first := render(t, p)
	if again := render(t, p); again != first {
		t.Error("the same page was written differently a second time")
	}
	for _, part := range []string{`<a href="tables/failures/0.parquet">1</a>`, "videos/cd/cdef.png", "it broke"} {
		if !strings.Contains(first, part) {
			t.Errorf("the page lacks %s", part)
		}
	}
}

func TestPageNamesAndCounts(t *testing.T) {
	for n, want := range map[int]string{1: "index.html", 2: "index-2.html", 2000: "index-2000.html"} {
		if got := PageName(n); got != want {
			t.Errorf("PageName(%d) = %q, want %q", n, got, want)
		}
	}
	counts := map[int]int{0: 1, 1: 1, PageSize: 1, PageSize + 1: 2, 1_000_000: 100}
	for total, want := range counts {
		if got := PageCount(total); got != want {
			t.Errorf("PageCount(%d) = %d, want %d", total, got, want)
		}
	}
}

func TestPagerNamesNeighboursAndEnds(t *testing.T) {
	text := func(number, pages int) string {
		var labels []string
		for _, s := range pagerSteps(number, pages, PageName) {
			if s.Current {
				s.Label = "[" + s.Label + "]"
			}
			labels = append(labels, s.Label)
		}
		return strings.Join(labels, " ")
	}
	for _, c := range []struct {
		number, pages int
		want          string
	}{
		{1, 1, "[1]"}, {2, 3, "1 [2] 3"}, {1, 9, "[1] 2 3 … 9"},
		{6, 2000, "1 … 4 5 [6] 7 8 … 2,000"}, {2000, 2000, "1 … 1,998 1,999 [2,000]"},
	} {
		if got := text(c.number, c.pages); got != c.want {
			t.Errorf("pager of page %d of %d: %q, want %q", c.number, c.pages, got, c.want)
		}
	}
}

func TestPageOfSeveral(t *testing.T) {
	p := Page{Title: "Run", Number: 3, Pages: 3, Total: 2*PageSize + 2, Items: numbered(2)}
	html := render(t, p)
	for _, want := range []string{
		"<title>Run, page 3 of 3</title>", "20,001–20,002 of 20,002 videos", `<link rel="prev" href="index-2.html">`,
		`aria-current="page" href="index-3.html"`,
	} {
		if !strings.Contains(html, want) {
			t.Errorf("page 3 of 3 lacks %q", want)
		}
	}
	if strings.Contains(html, `rel="next"`) {
		t.Error("the last page has a next page")
	}
}

func TestEmptyRunSaysSo(t *testing.T) {
	if html := render(t, onePage()); !strings.Contains(html, "No videos here yet.") {
		t.Error("a page without videos does not say that there are none")
	}
}

func TestBadPagesAreRefused(t *testing.T) {
	broken := errors.New("table is cut")
	for name, c := range map[string]struct {
		page Page
		want string
	}{
		"no items":      {Page{Number: 1, Pages: 1}, "no items"},
		"page beyond":   {Page{Number: 2, Pages: 1, Total: 3, Items: numbered(3)}, "page 2 of 1"},
		"wrong count":   {Page{Number: 1, Pages: 3, Total: 3, Items: numbered(3)}, "pages 1 to 1"},
		"negative":      {Page{Number: 1, Pages: 1, Total: -1, Items: numbered(0)}, "-1 items"},
		"too many":      {Page{Number: 1, Pages: 1, Total: 2, Items: numbered(3)}, "differ in number"},
		"too few":       {Page{Number: 1, Pages: 1, Total: 4, Items: numbered(3)}, "differ in number"},
		"unreadable":    {Page{Number: 1, Pages: 1, Total: 1, Items: failing(broken)}, "table is cut"},
		"absolute":      {onePage(Item{Video: "/etc/passwd", Width: 1, Height: 1, NumFrames: 1}), "relative"},
		"leaves folder": {onePage(Item{Video: "../x.mp4", Width: 1, Height: 1, NumFrames: 1}), "relative"},
		"no video":      {onePage(Item{ID: "r7", Width: 1, Height: 1, NumFrames: 1}), `item 1, id "r7"`},
		"no size":       {onePage(Item{Video: "x.mp4", NumFrames: 1}), "0x0"},
	} {
		err := Write(io.Discard, c.page)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
}

func failing(err error) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) { yield(Item{}, err) }
}

// tap is called for every write.
type tap func()

func (t tap) Write(b []byte) (int, error) { t(); return len(b), nil }

func TestPageIsWrittenAsItemsArrive(t *testing.T) {
	given, givenAtFirstWrite := 0, 0
	counted := func(yield func(Item, error) bool) {
		for item := range numbered(PageSize) {
			given++
			if !yield(item, nil) {
				return
			}
		}
	}
	first := tap(func() {
		if givenAtFirstWrite == 0 {
			givenAtFirstWrite = given
		}
	})
	if err := Write(first, Page{Number: 1, Pages: 1, Total: PageSize, Items: counted}); err != nil {
		t.Fatal(err)
	}
	if givenAtFirstWrite == 0 || givenAtFirstWrite > PageSize/2 {
		t.Errorf("the first bytes were written after %d of %d items", givenAtFirstWrite, PageSize)
	}
}

func TestFailingWriterIsReported(t *testing.T) {
	full := errors.New("disk full")
	r, w := io.Pipe()
	r.CloseWithError(full)
	if err := Write(w, onePage(plainItem())); !errors.Is(err, full) {
		t.Errorf("error %v, want %v", err, full)
	}
}

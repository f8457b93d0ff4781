package gallery

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"latentbeam/internal/dev/browser"
	"latentbeam/internal/system/testaid"
)

// inBrowser writes the pages of p to a folder and opens the first. Without a Chromium it skips the test.
func inBrowser(t *testing.T, p Page, w browser.Window) *browser.Page {
	t.Helper()
	testaid.Long(t, "starts a browser")
	folder := t.TempDir()
	err := WriteAll(p, func(name string, write func(io.Writer) error) error {
		f, err := os.Create(filepath.Join(folder, name))
		if err == nil {
			err = errors.Join(write(f), f.Close())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	b, err := browser.Open(ctx, w)
	if errors.Is(err, browser.ErrNone) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	begin := time.Now()
	if err := b.Go("file://" + filepath.Join(folder, "index.html")); err != nil {
		t.Fatal(err)
	}
	t.Logf("opened in %v", time.Since(begin).Round(time.Millisecond))
	return b
}

func eval[T any](t *testing.T, b *browser.Page, expression string) (value T) {
	t.Helper()
	if err := b.Eval(expression, &value); err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return value
}

// mixed returns items of several shapes, lengths and prompts. The last item has the file of the first.
func mixed() []Item {
	var items []Item
	for i, size := range [][2]int{{64, 64}, {96, 64}, {64, 128}, {512, 288}, {288, 512}, {64, 64}} {
		item := plainItem()
		item.ID, item.Prompt = fmt.Sprint("row-", i), fmt.Sprintf("prompt %d", 9-i)
		item.Width, item.Height, item.NumFrames = size[0], size[1], 8*(i+1)
		item.Video, item.Poster = fmt.Sprintf("videos/%d.mp4", i%5), ""
		items = append(items, item)
	}
	return items
}

const (
	shownIDs = `[...document.querySelectorAll('.card')].map((card) => card.row.id)`
	pick     = `(() => { const s = %s; s.value = %q; s.dispatchEvent(new Event('%s')); return s.value; })()`
	sorting  = "document.getElementById('sort')"
	finding  = "document.getElementById('filter')"
	sizing   = `document.querySelector('#facets select[aria-label=Size]')`
)

func TestInBrowser(t *testing.T) {
	p := onePage(mixed()...)
	p.Failed = new(Causes)
	p.Failed.Add("row", "read", Failure{ID: "bad-1", Source: "p.csv:9", Reason: "seed is not a number"})
	b := inBrowser(t, p, browser.Window{Width: 1200, Height: 900})
	ids := func(want ...string) {
		t.Helper()
		if got := eval[[]string](t, b, shownIDs); !slices.Equal(got, want) {
			t.Errorf("the page shows %v, want %v", got, want)
		}
	}
	ids("row-0", "row-1", "row-2", "row-3", "row-4", "row-5")
	if n := eval[int](t, b, "document.querySelectorAll('.badge').length"); n != 1 {
		t.Errorf("%d duplicates are marked, want 1", n)
	}
	if !eval[bool](t, b, "document.querySelector('.pixel') !== null") {
		t.Error("small videos are not enlarged sharp")
	}
	// There are no gaps: all media in a line have the same height, and a full line is as wide as the page.
	type line struct{ Heights, Right int }
	for _, l := range eval[[]line](t, b, `(() => { const lines = {};
		for (const card of document.querySelectorAll('.card')) (lines[card.style.top] ??= []).push(card);
		const width = document.getElementById('grid').clientWidth;
		return Object.values(lines).slice(0, -1).map((cards) => ({
			heights: new Set(cards.map((c) => c.querySelector('.media').offsetHeight)).size,
			right: Math.round(width - Math.max(...cards.map((c) => c.offsetLeft + c.offsetWidth))) })); })()`) {
		if l.Heights != 1 || l.Right < -1 || l.Right > 1 {
			t.Errorf("a line has media of %d heights and %d pixels left", l.Heights, l.Right)
		}
	}
	eval[string](t, b, fmt.Sprintf(pick, sorting, "largest", "change"))
	ids("row-3", "row-4", "row-2", "row-1", "row-0", "row-5")
	eval[string](t, b, fmt.Sprintf(pick, sorting, "prompt", "change"))
	ids("row-5", "row-4", "row-3", "row-2", "row-1", "row-0")
	eval[string](t, b, fmt.Sprintf(pick, sizing, "64×64", "change"))
	ids("row-5", "row-0")
	eval[string](t, b, fmt.Sprintf(pick, finding, "prompt 9", "input"))
	ids("row-0")
	if got := eval[string](t, b, "location.hash"); got != "#filter=prompt+9&sort=prompt&Size=64%C3%9764" {
		t.Errorf("the address says %q", got)
	}
	eval[bool](t, b, "document.getElementById('show-failed').click() ?? true")
	ids()
	eval[string](t, b, fmt.Sprintf(pick, finding, "number", "input"))
	if got := eval[string](t, b, "document.getElementById('failures').innerText"); len(got) < 20 {
		t.Errorf("the failed rows are not shown: %q", got)
	}
	eval[string](t, b, fmt.Sprintf(pick, finding, "nowhere", "input"))
	if eval[bool](t, b, "document.getElementById('nothing').hidden") {
		t.Error("no card matches, and the page does not say so")
	}
	for _, e := range b.Errors {
		t.Error("the browser reports:", e)
	}
}

// TestViewerOnPhone: on a phone, the button Close stays visible above the picture.
func TestViewerOnPhone(t *testing.T) {
	b := inBrowser(t, onePage(mixed()...), browser.Window{Width: 390, Height: 844, Phone: true})
	eval[bool](t, b, "document.querySelector('.card .media').click() ?? true")
	type place struct{ Top, Bottom, Picture float64 }
	got := eval[place](t, b, `(() => { const of = (s) => document.querySelector(s).getBoundingClientRect();
		return { top: of('#viewer-close').top, bottom: of('#viewer-close').bottom, picture: of('.stage').top }; })()`)
	if got.Top < 0 || got.Bottom > got.Picture {
		t.Errorf("Close is at %v to %v, the picture begins at %v", got.Top, got.Bottom, got.Picture)
	}
	if wide := eval[int](t, b, "document.documentElement.scrollWidth"); wide > 390 {
		t.Errorf("the page is %d pixels wide on a phone of 390", wide)
	}
}

// TestManyRowsInBrowser measures the time of a browser. LATENTBEAM_GALLERY_ROWS is the number of rows in
// one gallery.
func TestManyRowsInBrowser(t *testing.T) {
	rows := PageSize
	if s := os.Getenv("LATENTBEAM_GALLERY_ROWS"); s != "" {
		rows, _ = strconv.Atoi(s)
	}
	b := inBrowser(t, Page{Title: "Many", Total: rows, Items: numbered(rows)}, browser.Window{Width: 1280, Height: 900})
	if n := eval[int](t, b, "document.querySelectorAll('.card').length"); n < 10 || n > 200 {
		t.Errorf("%d cards are in the document", n)
	}
	for _, c := range []struct{ name, do string }{
		{"find", fmt.Sprintf(pick, finding, "number 99", "input")},
		{"clear", fmt.Sprintf(pick, finding, "", "input")},
		{"sort", fmt.Sprintf(pick, sorting, "prompt", "change")},
		{"scroll to the end", "scrollTo(0, document.body.scrollHeight)"},
	} {
		took := eval[float64](t, b, `(async () => { const begin = performance.now(); `+c.do+`;
			await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
			return performance.now() - begin; })()`)
		t.Logf("%s: %.0f ms", c.name, took)
	}
	m, err := b.Metrics()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("JS heap %.1f MB, %v nodes", m["JSHeapUsedSize"]/1e6, m["Nodes"])
	for _, e := range b.Errors {
		t.Error("the browser reports:", e)
	}
}

// TestUnfinishedPage: the page of a running job reloads itself and retains the filters. It does not reload while a video is open.
func TestUnfinishedPage(t *testing.T) {
	p := onePage(mixed()...)
	if text := render(t, p); strings.Contains(text, "unfinished") {
		t.Error("the page of a finished job says that it is not finished")
	}
	p.Unfinished = &Unfinished{Left: 7, Written: time.Now().Add(-time.Hour), Again: time.Second}
	p.Items = sequence(mixed())
	b := inBrowser(t, p, browser.Window{Width: 1200, Height: 900})
	if text := eval[string](t, b, "document.getElementById('unfinished').innerText"); !strings.Contains(text, "7 rows to be done") ||
		!strings.Contains(text, "the run may have ended") {
		t.Errorf("the page says %q", text)
	}
	again := func() bool {
		eval[int](t, b, "window.marked = 1")
		for begin := time.Now(); time.Since(begin) < 10*time.Second; time.Sleep(100 * time.Millisecond) {
			var marked bool
			if err := b.Eval("window.marked === 1 || !"+sizing, &marked); err == nil && !marked { // an error: the page is on its way
				return true
			}
		}
		return false
	}
	eval[string](t, b, fmt.Sprintf(pick, sizing, "64×64", "change"))
	if !again() {
		t.Fatal("the page was not loaded again")
	}
	if got := eval[string](t, b, sizing+".value"); got != "64×64" {
		t.Errorf("after the page was loaded again the chosen size is %q", got)
	}
	eval[bool](t, b, "document.querySelector('.card .media').click() ?? true")
	if again() {
		t.Error("the page was loaded again while a video was open")
	}
}

// scoredItems returns samples of two prompts with a reading each; the last has none.
func scoredItems() []Item {
	var items []Item
	for i := range 7 {
		item := plainItem()
		item.ID, item.Prompt, item.Sample, item.Seed = fmt.Sprint("row-", i), fmt.Sprint("prompt, \"", i%2, "\""), i/2, int64(i)<<53+1
		item.Video, item.Poster = fmt.Sprintf("videos/%d.mp4", i), ""
		if i < 6 {
			item.Details = []Detail{{Name: "Measured motion", Value: fmt.Sprint([]string{"3.5", "-1", "20", "0.25", "7", "3.5"}[i])}, {Name: "style", Value: "a"}}
		}
		items = append(items, item)
	}
	return items
}

// TestChooseInBrowser: a user can sort and filter rows by a reading, rate them with keys, filter them by rating, download them as a
// table, and compare them.
func TestChooseInBrowser(t *testing.T) {
	b := inBrowser(t, onePage(scoredItems()...), browser.Window{Width: 1200, Height: 900})
	ids := func(what string, want ...string) {
		t.Helper()
		if got := eval[[]string](t, b, shownIDs); !slices.Equal(got, want) {
			t.Errorf("%s: the page shows %v, want %v", what, got, want)
		}
	}
	eval[string](t, b, fmt.Sprintf(pick, sorting, "high Measured motion", "change"))
	ids("highest first", "row-2", "row-4", "row-0", "row-5", "row-3", "row-1", "row-6")
	const captions = `[...document.querySelectorAll('.caption')].map((c) => c.textContent.trim())`
	if got := eval[[]string](t, b, captions); !strings.HasPrefix(got[1], "motion 7 row-4 sample 2 64×64") || strings.Contains(got[6], "motion") {
		t.Errorf("the captions are %q", got)
	}
	eval[string](t, b, fmt.Sprintf(pick, `document.querySelector('[aria-label="motion: from"]')`, "3.5", "input"))
	ids("from 3.5", "row-2", "row-4", "row-0", "row-5")
	eval[string](t, b, fmt.Sprintf(pick, `document.querySelector('[aria-label="motion: to"]')`, "7", "input"))
	ids("from 3.5 to 7", "row-4", "row-0", "row-5")
	if got := eval[string](t, b, "location.hash"); !strings.Contains(got, "Measured+motion%3A=3.5..7") {
		t.Errorf("the address says %q", got)
	}
	eval[bool](t, b, "(location.hash = '#', dispatchEvent(new HashChangeEvent('hashchange')))")
	ids("without a choice", "row-0", "row-1", "row-2", "row-3", "row-4", "row-5", "row-6")
	if got := eval[[]string](t, b, captions); strings.Contains(strings.Join(got, " "), "motion") {
		t.Errorf("captions without a choice are %q", got)
	}
	press := `(() => { const card = [...document.querySelectorAll('.card')].find((c) => c.row.id === %q).querySelector('.media');
		card.focus(); card.dispatchEvent(new KeyboardEvent('keydown', { key: %q, bubbles: true, cancelable: true })); return true; })()`
	for id, key := range map[string]string{"row-1": "g", "row-3": "b", "row-4": "g"} {
		eval[bool](t, b, fmt.Sprintf(press, id, key))
	}
	eval[bool](t, b, fmt.Sprintf(press, "row-4", "u"))
	eval[string](t, b, fmt.Sprintf(pick, `document.querySelector('[aria-label="Rated"]')`, "good", "change"))
	ids("good", "row-1")
	eval[bool](t, b, "(location.hash = '#', dispatchEvent(new HashChangeEvent('hashchange')))")
	table := eval[string](t, b, `new Promise((done) => {
		const was = URL.createObjectURL; URL.createObjectURL = (blob) => { blob.text().then(done); return was(blob); };
		document.getElementById('ratings').click(); })`)
	want := "id,prompt,seed,sample_index,rating,rated_key\nrow-1,\"prompt, \"\"1\"\"\",9007199254740993,0,good,1\nrow-3,\"prompt, \"\"1\"\"\",27021597764222977,1,bad,3\n"
	if table != want {
		t.Errorf("the table is %q, want %q", table, want)
	}
	for _, id := range []string{"row-0", "row-1", "row-5", "row-1"} { // the last takes it back
		eval[bool](t, b, fmt.Sprintf(press, id, "c"))
	}
	eval[bool](t, b, "document.getElementById('compare').click() ?? true")
	if got := eval[[]string](t, b, `[...document.querySelectorAll('#comparison figure strong')].map((s) => s.textContent)`); len(got) != 2 || !strings.HasPrefix(got[0], "row-0") || !strings.HasPrefix(got[1], "row-5") {
		t.Errorf("compared are %v", got)
	}
	eval[bool](t, b, `(document.getElementById('comparison-close').click(), document.querySelector('.card .media').click(), document.getElementById('viewer-samples').click(), true)`)
	if got := eval[int](t, b, `document.querySelectorAll('#comparison[open] figure').length`); got != 4 {
		t.Errorf("%d samples of the prompt are compared, want 4", got)
	}
	for _, e := range b.Errors {
		if !strings.Contains(e, "videos/") { // which are not there
			t.Error("the browser reports:", e)
		}
	}
}

// TestClipsInBrowser: a page of clips shows images, says which media a browser cannot show, and has no seeds.
func TestClipsInBrowser(t *testing.T) {
	image, unseen := plainItem(), plainItem()
	image.ID, image.Video, image.Outside, image.Poster, image.Unseeded, image.Key = "image", "", "../in/a%20b.JPG", "", true, "1"
	unseen.ID, unseen.Video, unseen.Poster, unseen.Unseeded, unseen.Unseen, unseen.Key = "unseen", "", "", true, true, "2"
	p := onePage(image, unseen)
	p.Noun = "clip"
	b := inBrowser(t, p, browser.Window{Width: 800, Height: 600})
	if got := eval[string](t, b, "document.getElementById('status').textContent"); got != "2 clips" {
		t.Errorf("the page has %q", got)
	}
	if got := eval[[]string](t, b, `[...document.querySelectorAll('.media')].map((m) => m.firstElementChild.tagName + ' ' + m.firstElementChild.textContent)`); !slices.Equal(got,
		[]string{"IMG ", "P No picture"}) {
		t.Errorf("the cards show %q", got)
	}
	if text := eval[string](t, b, "document.querySelector('.grid').textContent"); strings.Contains(text, "seed") || strings.Contains(text, "duplicate") {
		t.Errorf("the cards say %q", text)
	}
	if got := eval[string](t, b, `(() => { document.querySelectorAll('.media')[1].click(); return document.querySelector('.fit').textContent; })()`); got !=
		"A browser cannot show this file" {
		t.Errorf("the viewer says %q", got)
	}
	if len(b.Errors) > 0 {
		t.Errorf("the page has errors: %v", b.Errors)
	}
}

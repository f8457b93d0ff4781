package gallery

import (
	"crypto/sha256"
	"encoding/base64"
	"html"
	"io"
	"runtime"
	"strings"
	"testing"
)

func TestPromptsAreText(t *testing.T) {
	for name, prompt := range map[string]string{
		"markup":  `<b>bold</b><script>alert(1)</script></p></ul><!--`,
		"quotes":  "\"double\" 'single' `tick` & &amp;",
		"cjk":     "日本語のプロンプト",
		"emoji":   "🎬🐼👩‍👩‍👧",
		"rtl":     "مربع أحمر \u202eoverride",
		"long":    strings.Repeat("a very long prompt, ", 500),
		"braces":  "{{.Title}} ${x}",
		"control": "a\x01b\tc\nd",
	} {
		item := plainItem()
		item.Prompt = prompt
		item.Details = append(item.Details, Detail{Name: prompt, Value: prompt})
		page := render(t, onePage(item))
		_, rest, found := strings.Cut(page, `id="p1" dir="auto">`)
		shown, _, closed := strings.Cut(rest, "</p>")
		if !found || !closed || html.UnescapeString(shown) != prompt {
			t.Errorf("%s: the page shows %.80q, want %.80q", name, html.UnescapeString(shown), prompt)
		}
		if strings.ContainsAny(shown, "<>\"") || strings.Count(page, "<script") != 1 {
			t.Errorf("%s: the prompt became markup: %.80q", name, shown)
		}
	}
}

func TestInvalidTextIsReplaced(t *testing.T) {
	item := plainItem()
	item.Prompt = "a\xffb\x00c"
	if page := render(t, onePage(item)); !strings.Contains(page, "a\uFFFDb\uFFFDc") {
		t.Error("bytes that are not text were not replaced")
	}
}

func TestPathsStayPaths(t *testing.T) {
	for path, want := range map[string]string{
		"videos/ab/abcd.mp4":    "videos/ab/abcd.mp4",
		"v/a #1?%41.mp4":        "v/a%20%231%3F%2541.mp4",
		`v/"q"'<b>\.mp4`:        "v/%22q%22%27%3Cb%3E%5C.mp4",
		"javascript:alert(1)":   "./javascript:alert%281%29",
		"v/日本.mp4":              "v/%E6%97%A5%E6%9C%AC.mp4",
		"v/{{.}}.mp4":           "v/%7B%7B.%7D%7D.mp4",
		"v/data:text;base64.x":  "v/data:text;base64.x",
		"v/with space/&amp.mp4": "v/with%20space/&amp;amp.mp4",
	} {
		item := plainItem()
		item.Video, item.Poster = path, path
		page := render(t, onePage(item))
		for _, attr := range []string{`href="` + want + `"`, `src="` + want + `"`, `poster="` + want + `"`} {
			if !strings.Contains(page, attr) {
				t.Errorf("path %q: no %s in the page", path, attr)
			}
		}
	}
}

// A browser runs the page's script only if the policy's hash is that of the bytes between the script tags.
func TestPolicyNamesTheScript(t *testing.T) {
	page := render(t, onePage(plainItem()))
	_, rest, _ := strings.Cut(page, `<script type="module">`)
	inline, _, _ := strings.Cut(rest, "</script>")
	sum := sha256.Sum256([]byte(inline))
	want := "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
	if !strings.Contains(html.UnescapeString(page), "script-src '"+want+"'") {
		t.Errorf("the page's policy does not allow its own script, %s", want)
	}
}

// A page must open from a folder without a network: nothing in it may point to another host.
func TestPageFetchesNothing(t *testing.T) {
	page := render(t, onePage(plainItem()))
	for _, bad := range []string{
		"http:", "https:", "//cdn", "@import", "url(", "fetch(", "XMLHttpRequest", "import ",
	} {
		if strings.Contains(page, bad) {
			t.Errorf("the page contains %q", bad)
		}
	}
}

func TestSmallVideosAreEnlargedSharp(t *testing.T) {
	for size, want := range map[int]bool{64: true, 127: true, 128: false, 512: false} {
		item := plainItem()
		item.Width = size
		if got := strings.Contains(render(t, onePage(item)), `class="card pixel"`); got != want {
			t.Errorf("width %d: sharp %v, want %v", size, got, want)
		}
	}
}

// A hundred thousand items pass through while the heap stays that of one page's buffers.
func TestMemoryDoesNotGrowWithItems(t *testing.T) {
	const total = 100_000
	const limit = 8 << 20
	var names []string
	before, most := heap(), uint64(0)
	p := Page{Title: "Run", Total: total, Items: numbered(total)}
	err := WriteAll(p, func(name string, write func(io.Writer) error) error {
		names = append(names, name)
		if len(names)%50 == 0 {
			most = max(most, heap())
		}
		return write(io.Discard)
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(names) != 200 || names[0] != "index.html" || names[199] != "index-200.html" {
		t.Errorf("%d pages, from %q to %q", len(names), names[0], names[len(names)-1])
	}
	if most > before+limit {
		t.Errorf("heap grew from %d to %d bytes over %d items, limit %d more", before, most, total, limit)
	}
}

// heap is what is alive after a collection.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestWriteAllCountsItems(t *testing.T) {
	discard := func(_ string, write func(io.Writer) error) error { return write(io.Discard) }
	for given, want := range map[int]string{1200: "", 1199: "differ in number", 1201: "more than the 1200"} {
		err := WriteAll(Page{Total: 1200, Items: numbered(given)}, discard)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%d items of 1200: error %v, want %q", given, err, want)
		}
	}
	if err := WriteAll(Page{}, discard); err == nil {
		t.Error("a gallery without items to read was written")
	}
}

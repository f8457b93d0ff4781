package gallery

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
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
		got := cardsOf(t, page)
		if got[0][2] != prompt {
			t.Errorf("%s: the page has %.80q, want %.80q", name, got[0][2], prompt)
		}
		if strings.Count(page, "<script") != 2 || strings.Contains(page, "<b>") {
			t.Errorf("%s: the prompt became markup", name)
		}
	}
}

// cardsOf reads the cards of a page in the same way as its script.
func cardsOf(t *testing.T, page string) (cards [][]any) {
	t.Helper()
	_, rest, _ := strings.Cut(page, dataBegin)
	data, _, found := strings.Cut(rest, "]</script>")
	if err := json.Unmarshal([]byte("["+data+"]"), &cards); err != nil || !found {
		t.Fatalf("the page's cards cannot be read: %v", err)
	}
	return cards
}

// TestFailuresAreText: the texts of a failed row are escaped in the page's HTML.
func TestFailuresAreText(t *testing.T) {
	bad := `<script>alert(1)</script>`
	p := onePage(plainItem())
	p.Failed = new(Causes)
	p.Failed.Add(bad, bad, Failure{ID: bad, Source: bad, Prompt: bad, Reason: bad})
	if page := render(t, p); strings.Contains(page, bad) || strings.Count(page, html.EscapeString(bad)) < 4 {
		t.Error("a text of a failed row became markup")
	}
}

// TestScriptKnowsTheColumns: the page's script names all columns of a card in order, because it reads them by position.
func TestScriptKnowsTheColumns(t *testing.T) {
	_, rest, _ := strings.Cut(rowsJS, "const columns = [")
	list, _, _ := strings.Cut(rest, "]")
	item := plainItem()
	card := cardsOf(t, render(t, onePage(item)))[0]
	names := strings.Split(list, ",")
	if len(names) != len(card) {
		t.Fatalf("the script knows %d columns, a card has %d", len(names), len(card))
	}
	want := map[string]any{"id": item.ID, "source": item.Source, "prompt": item.Prompt, "video": item.Video,
		"poster": item.Poster, "width": 64.0, "height": 64.0, "frames": 16.0, "fps": 8.0, "seed": "42", "steps": 20.0,
		"guidance": 7.5, "model": "tiny", "key": ""}
	for i, name := range names {
		name = strings.Trim(name, " \n'")
		if w, ok := want[name]; ok && card[i] != w {
			t.Errorf("column %s is %v, want %v", name, card[i], w)
		}
		delete(want, name)
	}
	if len(want) > 0 {
		t.Errorf("the script does not know %v", want)
	}
}

func TestInvalidTextIsReplaced(t *testing.T) {
	item := plainItem()
	item.Prompt = "a\xffb\x00c"
	if got := cardsOf(t, render(t, onePage(item)))[0][2]; got != "a\uFFFDb\x00c" {
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
		"v/with space/&amp.mp4": "v/with%20space/&amp.mp4",
	} {
		item := plainItem()
		item.Video, item.Poster = path, path
		card := cardsOf(t, render(t, onePage(item)))[0]
		if card[3] != want || card[4] != want {
			t.Errorf("path %q: the page has %q and %q, want %q", path, card[3], card[4], want)
		}
	}
}

// TestPolicyNamesTheScript: the policy has the hash of the bytes between the script tags. Otherwise a browser would not run the script.
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

// TestPageFetchesNothing: nothing in a page refers to another host, because a page must open from a folder without a network.
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

// TestMemoryDoesNotGrowWithItems: the heap does not grow while a hundred thousand items are written.
func TestMemoryDoesNotGrowWithItems(t *testing.T) {
	const total = 100_000
	const limit = 8 << 20
	var names []string
	before, most := heap(), uint64(0)
	p := Page{Title: "Run", Total: total, Items: numbered(total)}
	err := WriteAll(p, func(name string, write func(io.Writer) error) error {
		names = append(names, name)
		if len(names)%3 == 0 {
			most = max(most, heap())
		}
		return write(io.Discard)
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(names) != 10 || names[0] != "index.html" || names[9] != "index-10.html" {
		t.Errorf("%d pages, from %q to %q", len(names), names[0], names[len(names)-1])
	}
	if most > before+limit {
		t.Errorf("heap grew from %d to %d bytes over %d items, limit %d more", before, most, total, limit)
	}
}

// heap returns the bytes that are in use after a garbage collection.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestWriteAllCountsItems(t *testing.T) {
	discard := func(_ string, write func(io.Writer) error) error { return write(io.Discard) }
	for given, want := range map[int]string{12000: "", 11999: "differ in number", 12001: "more than the 12000"} {
		err := WriteAll(Page{Total: 12000, Items: numbered(given)}, discard)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%d items of 12000: error %v, want %q", given, err, want)
		}
	}
	if err := WriteAll(Page{}, discard); err == nil {
		t.Error("a gallery without items to read was written")
	}
}

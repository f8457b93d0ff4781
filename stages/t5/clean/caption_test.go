package clean

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"latentbeam/internal/system/testaid"
	"latentbeam/stages/nn/nntest"
)

// cleaned is a file of captions and the results of the reference (testdata/make_goldens.py).
type cleaned struct {
	Pairs    [][2]string
	Rejected []string // captions on which the reference raises an error
}

func readCleaned(t *testing.T, path string) cleaned {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var c cleaned
	if err := json.Unmarshal(data, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

func checkCleaned(t *testing.T, clean func(string) string, pairs [][2]string) {
	t.Helper()
	wrong := 0
	for _, p := range pairs {
		if got := clean(p[0]); got != p[1] {
			if wrong++; wrong <= 30 {
				t.Errorf("%+q\n got %+q\nwant %+q", p[0], got, p[1])
			}
		}
	}
	if wrong > 0 {
		t.Errorf("%d of %d captions differ", wrong, len(pairs))
	}
}

func TestCaptionEqualsReference(t *testing.T) {
	c := readCleaned(t, "testdata/captions.json")
	if len(c.Pairs) < 1600 {
		t.Fatalf("only %d captions", len(c.Pairs))
	}
	checkCleaned(t, Caption, c.Pairs)
}

// The pairs that the specification of this project was checked with, made with Beautiful Soup 4.11.2.
func TestCaptionEqualsSpecification(t *testing.T) {
	checkCleaned(t, Caption, readCleaned(t, "testdata/open-sora.json").Pairs)
	if data, ok := nntest.OpenSora(t, "../../../testdata/golden/open-sora.json")["text_preprocessing"]; ok {
		var c cleaned
		nntest.Decode(t, data, &c)
		checkCleaned(t, Caption, c.Pairs)
	}
}

// Open-Sora-Plan's copy of the code gives the same results, except for the captions of plan.json.
func TestPlanCaptionEqualsReference(t *testing.T) {
	others := readCleaned(t, "testdata/plan.json").Pairs
	if len(others) < 100 {
		t.Fatalf("only %d captions", len(others))
	}
	own := map[string]bool{}
	for _, p := range others {
		own[p[0]] = true
	}
	for _, p := range append(readCleaned(t, "testdata/captions.json").Pairs, readCleaned(t, "testdata/open-sora.json").Pairs...) {
		if !own[p[0]] {
			others = append(others, p)
		}
	}
	checkCleaned(t, PlanCaption, others)
}

// What the reference rejects keeps its words.
func TestCaptionRejected(t *testing.T) {
	for _, caption := range readCleaned(t, "testdata/captions.json").Rejected {
		if strings.HasPrefix(caption, "a cat ") {
			got := Caption(caption)
			if !strings.HasPrefix(got, "a cat ") || !strings.HasSuffix(got, "on a mat") {
				t.Errorf("Caption(%q) = %q", caption, got)
			}
		}
	}
}

// Every unit is what some step could take quadratic time for: 16 times the text, not 256 times the time.
func TestCaptionIsLinear(t *testing.T) {
	for _, unit := range []string{
		"a red bird drifts above the clouds, ", "a", " ", "\n", "a.", ".", "-", "a-", "a.com@", "http:",
		"<", "<a ", "<a b=\"", "<a b='\">", "<!--", "<!--->", "<![cdata[", "<![if ]", "<b>", "</b>",
		"<script>", "</script", "&", "&#", "&#1", "&a", "&amp;", "%", "%e2", "%41", "+", "Σ", "Σ.", "1",
		"1.", "1x", "#", "#1", "@", "@a", "a1", "jpg", "a.jpg", ".jpg", "/", "_", "'", "\"", "worldwide ",
		"free ", "worldwide free ", "click on ", "page ", ":", " : ", ",", "Ã©", "’é", "x\u0301", "一",
		"\u0323\u0301", "\xff", "＆amp;",
	} {
		took := func(size int) time.Duration {
			caption := strings.Repeat(unit, size/len(unit))
			start := time.Now()
			Caption(caption)
			return time.Since(start)
		}
		took(1 << 12)
		for try := 1; ; try++ { // another program may have had the machine
			small, large := took(1<<12), took(1<<16)
			if large <= 100*small+50*time.Millisecond {
				break
			}
			if try == 10 {
				t.Errorf("%q: 4 KiB take %v, 64 KiB take %v", unit, small, large)
				break
			}
		}
	}
}

func TestCaptionMegabyte(t *testing.T) {
	testaid.Long(t, "it takes seconds")
	start := time.Now()
	const unit = "The man said,hello.World is 10,000 big/small “quoted” café. "
	Caption(strings.Repeat(unit, 1<<20/len(unit)))
	if took := time.Since(start); took > 5*time.Minute { // seconds; a machine may do much else
		t.Errorf("1 MiB took %v", took)
	}
}

func FuzzCaption(f *testing.F) {
	for _, s := range []string{"a <b", "&#x", "%e2%82", "x.com/@", "<a b=\"", "\xff<", "<![if", "ΑΣ", "“a”"} {
		f.Add(s)
	}
	f.Fuzz(func(_ *testing.T, s string) { Caption(s) })
}

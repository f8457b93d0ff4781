package read

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"latentbeam/internal/config/document"
	"latentbeam/internal/table/typed"
)

func textFile(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// readAll reads a table and fails on anything that ends it early. Sources lose their directory.
func readAll(t testing.TB, path string, opts Options) []Record {
	t.Helper()
	p, err := Open([]string{path}, opts)
	if err != nil {
		t.Fatal(err)
	}
	var out []Record
	for rec, err := range p.All() {
		if err != nil {
			t.Fatal(err)
		}
		rec.Row.Source = filepath.Base(rec.Row.Source)
		if rec.Bad != nil {
			rec.Bad.Source = filepath.Base(rec.Bad.Source)
		}
		out = append(out, rec)
	}
	return out
}

// summary is a record in one line: what a test compares.
func summary(r Record) string {
	if r.Bad != nil {
		return "BAD " + r.Bad.Error()
	}
	w := r.Row
	s := fmt.Sprintf("%s %q", w.Source, w.Prompt)
	add := func(given bool, format string, v any) {
		if given {
			s += " " + fmt.Sprintf(format, v)
		}
	}
	add(w.ID != w.ContentID(), "id=%s", w.ID)
	add(w.NegativePrompt != "", "neg=%s", w.NegativePrompt)
	if w.Seed != nil {
		add(true, "seed=%d", *w.Seed)
	}
	add(w.Height != 0, "h=%d", w.Height)
	add(w.Width != 0, "w=%d", w.Width)
	add(w.NumFrames != 0, "f=%d", w.NumFrames)
	add(w.FPS != 0, "fps=%v", w.FPS)
	add(w.NumInferenceSteps != 0, "steps=%d", w.NumInferenceSteps)
	add(w.GuidanceScale != nil, "cfg=%v", w.Guidance())
	add(w.MaxSequenceLength != 0, "len=%d", w.MaxSequenceLength)
	add(w.NumVideosPerPrompt != 0, "n=%d", w.NumVideosPerPrompt)
	add(w.Extra != "", "extra=%s", w.Extra)
	return s
}

func expect(t *testing.T, got []Record, want ...string) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		g, w := "(no row)", "(no row)"
		if i < len(got) {
			g = summary(got[i])
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			t.Errorf("row %d\ngot  %s\nwant %s", i, g, w)
		}
	}
}

func TestCSV(t *testing.T) {
	path := textFile(t, "a.csv", "\xef\xbb\xbf"+
		"prompt,id,seed,height,width,num_frames,fps,steps,guidance_scale,note\r\n"+
		"a red circle,r1,42,64,128,16,8,50,4.5,first\r\n"+
		"\"commas, \"\"quotes\"\" and\r\nlines\",,,,,,,,,\"a \"\"b\"\" <c>\"\r\n"+
		",,7.0, 64 ,,,23.976,,0,日本\r\n"+
		"\r\n"+
		"last without newline,x,0,1,1,1,1,1,1,")
	expect(t, readAll(t, path, Options{}),
		`a.csv:2 "a red circle" id=r1 seed=42 h=64 w=128 f=16 fps=8 steps=50 cfg=4.5 extra={"note":"first"}`,
		`a.csv:3 "commas, \"quotes\" and\nlines" extra={"note":"a \"b\" <c>"}`,
		`a.csv:5 "" seed=7 h=64 fps=23.976 cfg=0 extra={"note":"日本"}`,
		`a.csv:7 "last without newline" id=x seed=0 h=1 w=1 f=1 fps=1 steps=1 cfg=1 extra={"note":""}`)
}

func TestCSVBadRows(t *testing.T) {
	path := textFile(t, "b.csv", "prompt,seed,height,guidance_scale\n"+
		"good 1,1,64,1\n"+
		"nan,NaN,64,1\n"+
		"half,1.5,64,1\n"+
		"negative,-1,64,1\n"+
		"huge,99999999999999999999,64,1\n"+
		"words,seven,64,1\n"+
		"size,1,0,1\n"+
		"inf,1,64,Inf\n"+
		"few,1\n"+
		"many,1,64,1,5,6\n"+
		"5\" disk,1,64,1\n"+
		"bad \xff utf8,1,64,1\n"+
		"good 2,1,64,1\n")
	got := readAll(t, path, Options{})
	const seedFix = "; give a whole number from 0 to 9223372036854775807, or leave it empty for the default"
	expect(t, got,
		`b.csv:2 "good 1" seed=1 h=64 cfg=1`,
		`BAD b.csv:3: seed: "NaN" is not a whole number`+seedFix,
		`BAD b.csv:4: seed: "1.5" is not a whole number`+seedFix,
		`BAD b.csv:5: seed: -1 is out of range, a whole number from 0 to 9223372036854775807; correct it, or leave it empty for the default`,
		`BAD b.csv:6: seed: "99999999999999999999" is too large for a whole number`+seedFix,
		`BAD b.csv:7: seed: "seven" is not a whole number`+seedFix,
		`BAD b.csv:8: height: 0 is out of range, a whole number from 1 to 16384; `+
			`correct it, or leave it empty for the default`,
		`BAD b.csv:9: guidance_scale: +Inf is out of range, a number from 0 to 1000; `+
			`correct it, or leave it empty for the default`,
		`BAD b.csv:10: the row has 2 values and the header 4; put values that contain commas in quotes`,
		`BAD b.csv:11: the row has 6 values and the header 4; put values that contain commas in quotes`,
		`BAD b.csv:12: not csv: bare " in non-quoted-field; `+
			`put the value in quotes and write each quote in it twice: "a ""b"" c"`,
		`BAD b.csv:13: prompt: not valid UTF-8; save the table as UTF-8`,
		`b.csv:14 "good 2" seed=1 h=64 cfg=1`)
	if got[1].Row.Prompt != "nan" || got[11].Row.Prompt != "bad \uFFFD utf8" {
		t.Errorf("bad rows lost their prompts: %q, %q", got[1].Row.Prompt, got[11].Row.Prompt)
	}
	if given := got[2].Bad.Given; len(given) != 1 || given["seed"] != "1.5" || got[6].Bad.Given["height"] != "0" {
		t.Errorf("as given: %v, %v", given, got[6].Bad.Given)
	}
	if bad := got[11].Bad; got[11].Row.Source != "b.csv:13" || !strings.Contains(bad.Error(), "UTF-8") {
		t.Errorf("%+v", bad)
	}
}

func TestCSVQuoteThatIsNeverClosed(t *testing.T) {
	rows := "prompt,note\n\ngood,1\n\n\"open,2\n" + strings.Repeat("fine,3\n", 3) + "good,\"a\nb\"\nlast,4\n"
	got := readAll(t, textFile(t, "q.csv", rows), Options{})
	expect(t, got, `q.csv:3 "good" extra={"note":"1"}`,
		`BAD q.csv:5: a quote that opens here is not closed as csv wants it; `+
			`close it, and write each quote inside of quotes twice: "a ""b"" c"`,
		`q.csv:6 "fine" extra={"note":"3"}`, `q.csv:7 "fine" extra={"note":"3"}`,
		`q.csv:8 "fine" extra={"note":"3"}`, `q.csv:9 "good" extra={"note":"a\nb"}`,
		`q.csv:11 "last" extra={"note":"4"}`)
	// More than a record may hold follows the quote: still one bad row, and memory stays bounded.
	line := strings.Repeat("x", 1000) + ",n\n"
	big := "prompt,note\n\"open,n\n" + strings.Repeat(line, 2*typed.MaxRecordBytes/len(line))
	recs := readAll(t, textFile(t, "big.csv", big), Options{})
	if len(recs) != 1+2*typed.MaxRecordBytes/len(line) || recs[0].Bad == nil || recs[1].Bad != nil ||
		recs[len(recs)-1].Row.Source != fmt.Sprintf("big.csv:%d", len(recs)+1) {
		t.Errorf("%d rows, first %v, last %s", len(recs), recs[0].Bad, recs[len(recs)-1].Row.Source)
	}
	// A single line that is too long.
	huge := "prompt\n" + strings.Repeat("y", typed.MaxRecordBytes+10) + "\nafter\n"
	recs = readAll(t, textFile(t, "huge.csv", huge), Options{})
	if len(recs) != 2 || recs[0].Bad == nil || summary(recs[1]) != `huge.csv:3 "after"` {
		t.Errorf("%d rows", len(recs))
	}
}

func TestJSONL(t *testing.T) {
	path := textFile(t, "a.jsonl", "\xef\xbb\xbf"+
		`{"prompt": "a \"red\" circle\n", "seed": 42, "id": 17, "fps": 8, "tags": ["a", {"b": "}"}], "x": null}`+"\n"+
		"\n"+
		` { "caption" : "two words" , "num_frames" : 16.0 , "guidance_scale" : "3.5" } `+"\r\n"+
		`{"prompt": ""}`+"\n"+
		`{"caption": "old", "prompt": "wins", "text": "x", "negative_prompt": "blur"}`+"\n"+
		`{"text": "\ud83d\ude00 \ufffd", "seed": null, "max_sequence_length": 120, "num_videos_per_prompt": 3}`)
	expect(t, readAll(t, path, Options{}),
		`a.jsonl:1 "a \"red\" circle\n" id=17 seed=42 fps=8 extra={"tags":["a", {"b": "}"}],"x":null}`,
		`a.jsonl:3 "two words" f=16 cfg=3.5`,
		`a.jsonl:4 ""`,
		`a.jsonl:5 "wins" neg=blur extra={"caption":"old","text":"x"}`,
		`a.jsonl:6 "😀 �" len=120 n=3`)
}

func TestJSONLBadRows(t *testing.T) {
	path := textFile(t, "b.jsonl", strings.Join([]string{
		`{"prompt": "good"}`,
		`{"prompt": "nan", "seed": NaN}`,
		`{"prompt": "unfinished"`,
		`["prompt"]`,
		`{"seed": 1}`,
		`{"prompt": null}`,
		`{"prompt": 7}`,
		`{"prompt": "x", "seed": true}`,
		`{"prompt": "x", "height": [1]}`,
		`{"prompt": "x", "seed": 1e400}`,
		`{"prompt": "half \ud800"}`,
		"{\"prompt\": \"bad \xff\"}",
		`{"prompt": "` + strings.Repeat("p", 1<<20) + `"}`,
		`{"prompt": "x", "big": "` + strings.Repeat("p", typed.MaxExtraBytes) + `"}`,
		`{"prompt": "` + strings.Repeat("p", typed.MaxRecordBytes) + `"}`,
		`{"prompt": "good"}`}, "\n")+"\n")
	got := readAll(t, path, Options{})
	if len(got) != 16 {
		t.Fatalf("%d rows", len(got))
	}
	for i, want := range map[int]string{
		1: "seed: NaN is not a whole number", 2: "not JSON", 3: "not a JSON object", 4: "prompt: the value is missing",
		5: "prompt: the value is missing", 6: "prompt: a number is not a text", 7: "seed: true is not a whole number",
		8: "height: a list is not a whole number", 9: "seed: 1e400 is not a whole number",
		10: "half of a surrogate pair", 11: "not valid UTF-8", 12: "1048576 bytes are too long",
		13: "carried along take", 14: "longer than 16 MiB"} {
		if got[i].Bad == nil || !strings.Contains(got[i].Bad.Error(), want) {
			t.Errorf("row %d: %v, want %q", i, got[i].Bad, want)
		}
		if n := got[i].Row.ByteSize(); n > 4096 {
			t.Errorf("row %d: a bad row of %d bytes", i, n)
		}
	}
	if got[0].Bad != nil || got[15].Bad != nil || got[15].Row.Source != "b.jsonl:16" {
		t.Errorf("%v %v", got[0], got[15])
	}
}

func TestTXT(t *testing.T) {
	expect(t, readAll(t, textFile(t, "a.txt", "\xef\xbb\xbfone\r\n\n  two, \"2\"\n\xff\nlast"), Options{}),
		`a.txt:1 "one"`, `a.txt:3 "  two, \"2\""`,
		`BAD a.txt:4: prompt: not valid UTF-8; save the table as UTF-8`, `a.txt:5 "last"`)
	expect(t, readAll(t, textFile(t, "b.txt", "one\n"), Options{}), `b.txt:1 "one"`)
	expect(t, readAll(t, textFile(t, "c.txt", ""), Options{}))
	expect(t, readAll(t, textFile(t, "d.dat", "\n"), Options{Format: "txt", RawText: true}), `d.dat:1 ""`)
	expect(t, readAll(t, textFile(t, "e.txt", "one\n\n# none\n #two\n"), Options{}), `e.txt:1 "one"`, `e.txt:4 " #two"`)
	expect(t, readAll(t, textFile(t, "f.txt", "one\n\n# two\n"), Options{RawText: true}), `f.txt:1 "one"`, `f.txt:2 ""`, `f.txt:3 "# two"`)
	expect(t, readAll(t, textFile(t, "g.txt", "one\rtwo\r"), Options{}), `g.txt:1 "one"`, `g.txt:2 "two"`)
	expect(t, readAll(t, textFile(t, "h.txt", "a \x00 cat\n"), Options{}), `BAD h.txt:1: prompt: it holds a NUL character: the file is damaged, `+
		`or UTF-16 without its mark; give a text of at most 65536 bytes`)
}

func TestMapping(t *testing.T) {
	path := textFile(t, "m.csv", "text,my prompt,Height,prompt\na,b,64,c\n")
	expect(t, readAll(t, path, Options{}), `m.csv:2 "c" h=64 extra={"text":"a","my prompt":"b"}`)
	expect(t, readAll(t, path, Options{Columns: map[string]string{"prompt": "my prompt", "id": "text"}}),
		`m.csv:2 "b" id=a h=64 extra={"prompt":"c"}`)
	path = textFile(t, "m.jsonl", `{"text": "a", "my prompt": "b", "prompt": "c"}`)
	expect(t, readAll(t, path, Options{Columns: map[string]string{"prompt": "my prompt", "id": "text"}}),
		`m.jsonl:1 "b" id=a extra={"prompt":"c"}`)
	expect(t, readAll(t, textFile(t, "r.csv", "Prompt,prompt,Caption\na,b,c\n"), Options{}),
		`r.csv:2 "b" extra={"Prompt":"a","Caption":"c"}`)
	// pandas writes its index under no name.
	expect(t, readAll(t, textFile(t, "p.csv", ",prompt\n0,a\n"), Options{}), `p.csv:2 "a" extra={"column_1":"0"}`)
}

func TestTablesThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		path string
		opts Options
		want string
	}{
		{textFile(t, "a.csv", "title,seed\nx,1\n"), Options{}, "the columns are: title, seed"},
		{textFile(t, "a.csv", "a cat;1\n"), Options{}, "the columns are: a cat, 1"},
		{textFile(t, "a.csv", ""), Options{}, "empty"},
		{textFile(t, "a.csv", "prompt,prompt\n"), Options{}, "stands twice"},
		{textFile(t, "a.csv", "prompt,\"x\n"), Options{}, "cannot be read"},
		{textFile(t, "a.csv", "prompt\n"), Options{Columns: map[string]string{"seed": "s"}}, `no column "s"`},
		{textFile(t, "a.csv", "\xff\xfep\x00"), Options{}, "UTF-16"},
		{textFile(t, "a.jsonl", `{"title": "x"}`+"\n"+`{"name": "x"}`), Options{}, "columns are: name, title"},
		{textFile(t, "a.jsonl", `{"text": "x"}`), Options{Columns: map[string]string{"prompt": "p"}}, `no key "p"`},
		{textFile(t, "a.dat", "x"), Options{}, "does not tell the format"},
		{textFile(t, "a.csv.xz", "x"), Options{}, "unpack it first"},
		{textFile(t, "a.parquet.gz", "x"), Options{}, "unpack it first"},
		{textFile(t, "a.csv.gz", "x"), Options{}, "unpack:"},
		{filepath.Join(dir, "none.csv"), Options{}, "no such file"},
		{filepath.Join(dir, "*.csv"), Options{}, "no file matches"},
		{dir, Options{}, "holds no parquet, csv or jsonl file"},
		{os.DevNull, Options{Format: "csv"}, "no regular file"},
	} {
		_, err := Open([]string{c.path}, c.opts)
		var problem *document.Error
		if !errors.As(err, &problem) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %+v: %v, want %q", c.path, c.opts, err, c.want)
		}
	}
}

func TestSeveralFiles(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"b.txt": "b1\nb2\n", "a.txt": "a1\n", "c.csv": "prompt\nc1\n",
		"odd[1].txt": "odd\n", "empty.txt": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	p, err := Open([]string{filepath.Join(dir, "*.txt"), filepath.Join(dir, "c.csv"), filepath.Join(dir, "a.txt")},
		Options{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for rec, err := range p.All() {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, rec.Row.Prompt)
	}
	if want := []string{"a1", "b1", "b2", "odd", "c1"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if _, err := p.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("after the end: %v", err)
	}
	if p, err := Open([]string{filepath.Join(dir, "odd[1].txt")}, Options{}); err != nil || len(p.files) != 1 {
		t.Errorf("a name with brackets: %v", err)
	}
}

func TestEqualRowsShareAnID(t *testing.T) {
	rows := readAll(t, textFile(t, "a.csv", "prompt,seed,note\na,1,x\na,1,y\na,2,x\n"), Options{})
	if rows[0].Row.ID != rows[1].Row.ID || rows[0].Row.ID == rows[2].Row.ID || len(rows[0].Row.ID) != 32 {
		t.Errorf("ids %s %s %s", rows[0].Row.ID, rows[1].Row.ID, rows[2].Row.ID)
	}
}

// Reading must not keep rows: the heap after 100,000 rows is that of a few.
func TestMemoryIsBounded(t *testing.T) {
	const rows = 100_000
	for _, c := range []struct{ name, head, line string }{
		{"m.csv", "prompt,seed,note\n", "a red circle moves to the left on a blue background,%d,some note\n"},
		{"m.jsonl", "", `{"prompt": "a red circle moves to the left on a blue field", "seed": %d, "note": "n"}` + "\n"},
		{"m.txt", "", "a red circle moves to the left on a blue background %d\n"},
	} {
		var b strings.Builder
		b.WriteString(c.head)
		for i := range rows {
			fmt.Fprintf(&b, c.line, i)
		}
		path := textFile(t, c.name, b.String())
		b.Reset()
		p, err := Open([]string{path}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		n := 0
		for rec, err := range p.All() {
			if err != nil || rec.Bad != nil {
				t.Fatal(err, rec.Bad)
			}
			if n++; n == rows-1 {
				runtime.GC()
				runtime.ReadMemStats(&after)
			}
		}
		if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); n != rows || grown > 2<<20 {
			t.Errorf("%s: %d rows, heap grew by %d bytes", c.name, n, grown)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	for _, c := range []struct{ name, head, line string }{
		{"b.csv", "prompt,seed,category\n", "a red circle moves to the left on a blue background,%d,shapes\n"},
		{"b.jsonl", "", `{"prompt": "a red circle moves to the left on a blue field", "seed": %d, "c": "s"}` + "\n"},
		{"b.txt", "", "a red circle moves to the left on a blue background %d\n"},
	} {
		b.Run(c.name, func(b *testing.B) {
			var text strings.Builder
			text.WriteString(c.head)
			for i := range b.N {
				fmt.Fprintf(&text, c.line, i)
			}
			p, err := Open([]string{textFile(b, c.name, text.String())}, Options{})
			if err != nil {
				b.Fatal(err)
			}
			b.ResetTimer()
			for rec, err := range p.All() {
				if err != nil || rec.Bad != nil {
					b.Fatal(err, rec.Bad)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

package read

import (
	"archive/tar"
	"bytes"
	"strings"
	"testing"

	"latentbeam/internal/table/tabletest"
)

// TestPlain: texts as editors write them.
func TestPlain(t *testing.T) {
	for text, want := range map[string]string{
		"a red ball":             "a red ball",
		"\xef\xbb\xbfa red ball": "a red ball",
		"a\rb":                   "a\nb",
		"a\r\nb\rc\r":            "a\r\nb\nc\n",
		"\xff\xfea\x00 \x00":     "! it is UTF-16; save it as UTF-8, or convert it: iconv -f UTF-16 -t UTF-8 OLD > NEW",
		"\xfe\xff\x00a":          "! it is UTF-16; save it as UTF-8, or convert it: iconv -f UTF-16 -t UTF-8 OLD > NEW",
		"a\x00b":                 "! it holds a NUL character: the file is damaged, or UTF-16 without its mark",
		"caf\xe9":                "! not valid UTF-8; save it as UTF-8",
		"":                       "",
	} {
		got, err := Plain([]byte(text))
		if err != nil {
			got = "! " + err.Error()
		}
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestCSVOfOtherPrograms: separators, ends of lines and empty rows as spreadsheets write them.
func TestCSVOfOtherPrograms(t *testing.T) {
	one := []string{`t.csv:2 "a, b" seed=1`, `t.csv:3 "c; d" seed=2`}
	for text, want := range map[string][]string{
		"prompt,seed\n\"a, b\",1\nc; d,2\n":               one,
		"prompt;seed\na, b;1\n\"c; d\";2\n":               one,
		"prompt\tseed\na, b\t1\nc; d\t2\n":                one,
		"prompt|seed\na, b|1\nc; d|2\n":                   one,
		"prompt,seed\r\"a, b\",1\rc; d,2\r":               one,
		"\xef\xbb\xbfprompt;seed\r\na, b;1\r\n\"c; d\";2": one,
		"prompt,seed\n\"a, b\",1\nc; d,2\n,\n,\n":         one,
		"prompt,seed\n,\n\"\",\"\"\nx,3\n":                {`t.csv:3 ""`, `t.csv:4 "x" seed=3`}, // quotes say that it is meant
		"prompt,seed,extra\n,,\nx,3,\n":                   {`t.csv:3 "x" seed=3 extra={"extra":""}`},
	} {
		expect(t, readAll(t, textFile(t, "t.csv", text), Options{}), want...)
	}
	expect(t, readAll(t, textFile(t, "t.tsv", "prompt,x\tseed\na\t1\n"), Options{Columns: map[string]string{"prompt": "prompt,x"}}), `t.tsv:2 "a" seed=1`)
	given := Options{Comma: ';', Columns: map[string]string{"prompt": "prompt,x"}}
	expect(t, readAll(t, textFile(t, "t.csv", "prompt,x;seed\na;1\n"), given), `t.csv:2 "a" seed=1`)
	o := Options{Uses: &Uses{}}
	readAll(t, textFile(t, "t.csv", "prompt,seed\na,1\n,\n,\n"), o)
	if n, file := o.Uses.Skipped(); n != 2 || !strings.HasSuffix(file, "t.csv") {
		t.Errorf("%d empty rows of %s", n, file)
	}
}

// TestNaN: what Python writes for missing numbers is null, but in a field that the job needs.
func TestNaN(t *testing.T) {
	path := textFile(t, "t.jsonl", `{"prompt": "a NaN", "score": NaN, "list": [1, -Infinity, "NaN"], "fps": NaN}`+"\n"+
		`{"prompt": "b", "seed": NaN}`+"\n"+`{"prompt": NaN}`+"\n")
	expect(t, readAll(t, path, Options{Params: []string{"prompt", "seed"}}),
		`t.jsonl:1 "a NaN" extra={"score":null,"list":[1, null, "NaN"]}`,
		"BAD t.jsonl:2: seed: NaN is not a whole number; give a whole number from 0 to 9223372036854775807, or leave it empty for the default",
		"BAD t.jsonl:3: prompt: NaN is not a text; give a text of at most 65536 bytes")
}

// TestJSONArrays: an array is a table, also under the name of lines of JSON, and a file that is neither says so.
func TestJSONArrays(t *testing.T) {
	const array = " [ {\"path\": \"x.mp4\", \"cap\": [\"a \\\"]\\\" card\"]},\n{\"path\": \"y.mp4\", \"cap\": [\"one\", \"two\"], \"n\": [1, {\"a\": \"}\"}]} ,\n" +
		"{\"path\": \"z.mp4\", \"cap\": []}, 7\n]\n"
	for _, name := range []string{"t.json", "t.jsonl"} {
		expect(t, readAll(t, textFile(t, name, array), Options{Media: true}),
			name+`:row 1 "a \"]\" card" extra={"path":"x.mp4","cap":["a \"]\" card"]}`,
			name+`:row 2 "one" extra={"path":"y.mp4","cap":["one", "two"],"n":[1, {"a": "}"}]}`,
			name+`:row 2 "two" extra={"path":"y.mp4","cap":["one", "two"],"n":[1, {"a": "}"}]}`,
			name+`:row 3 "" extra={"path":"z.mp4","cap":[]}`,
			`BAD `+name+`:row 4: not a JSON object; write {"prompt": "..."}`)
	}
	expect(t, readAll(t, textFile(t, "t.json", `["a cat", "", "a dog"]`), Options{}), `t.json:row 1 "a cat"`, `t.json:row 2 ""`, `t.json:row 3 "a dog"`)
	expect(t, readAll(t, textFile(t, "t.json", `[]`), Options{}))
	expect(t, readAll(t, textFile(t, "t.json", "{\"prompt\": \"a\"}\n{\"prompt\": \"b\"}\n"), Options{}), `t.json:1 "a"`, `t.json:2 "b"`)
	for text, want := range map[string]string{
		`[{"prompt": "a"}, {"prompt": "b"`: "the array is not closed behind element 1",
		`[{"prompt": "a"}] x`:              "text follows the end of the array behind element 1",
		"{\n\"prompt\": \"a\"\n}":          "this is no table",
		`[{"id": "a", "title": "b"}]`:      "{prompt: title}",
		`[{"title": "a"}]`:                 "no column holds the prompts; the columns are: title",
	} {
		if _, err := Open([]string{textFile(t, "t.json", text)}, Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestCaptionLists: a list of captions is a row for each, whose ids tell them apart.
func TestCaptionLists(t *testing.T) {
	type row struct {
		ID      string   `parquet:"id"`
		Path    string   `parquet:"path"`
		Caption []string `parquet:"caption,list"`
	}
	table := tabletest.WriteFile(t, []row{{"x", "x.mp4", []string{"one", "two"}}, {"y", "y.mp4", []string{"three"}}, {"z", "z.mp4", nil}})
	lines := textFile(t, "t.jsonl", `{"id": "x", "path": "x.mp4", "caption": ["one", "two"]}`+"\n"+
		`{"id": "y", "path": "y.mp4", "caption": ["three"]}`+"\n"+`{"id": "z", "path": "z.mp4", "caption": []}`+"\n")
	for _, path := range []string{table, lines} {
		var got []string
		for _, rec := range readAll(t, path, Options{Media: true}) {
			got = append(got, rec.Row.ID+" "+rec.Row.Media+" "+rec.Row.Prompt)
		}
		if s := strings.Join(got, "|"); s != "x#c000 x.mp4 one|x#c001 x.mp4 two|y y.mp4 three|z z.mp4 " {
			t.Errorf("%s: %s", path, s)
		}
	}
	expect(t, readAll(t, textFile(t, "t.jsonl", `{"path": "x.mp4", "caption": ["one", 2]}`), Options{Media: true}),
		"BAD t.jsonl:1: prompt: the list of captions holds something other than texts; write a list of texts")
}

// tarFile writes a tar of members, each a name and its content.
func tarFile(t *testing.T, members ...[2]string) string {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, m := range members {
		if err := w.WriteHeader(&tar.Header{Name: m[0], Mode: 0o644, Size: int64(len(m[1]))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(m[1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return textFile(t, "t.tar", b.String())
}

// TestTarTexts: texts of a tar are read as texts beside media are, and members that lie apart are named as the cause.
func TestTarTexts(t *testing.T) {
	var got []string
	for _, rec := range readAll(t, tarFile(t, [2]string{"a.mp4", "v"}, [2]string{"a.txt", "\xef\xbb\xbfa\rball\r\n"},
		[2]string{"b.mp4", "v"}, [2]string{"b.txt", "\xff\xfeb\x00"}, [2]string{"c.mp4", "v"}, [2]string{"c.json", "\xef\xbb\xbf{\"caption\": [\"one\", \"two\"], \"x\": NaN}"},
		[2]string{"d.mp4", "v"}, [2]string{"e.mp4", "v"}, [2]string{"d.txt", "d"}, [2]string{"e.txt", "e"}), Options{Media: true}) {
		text := rec.Row.ID + " " + rec.Row.Prompt + " " + rec.Row.Extra
		if rec.Bad != nil {
			text = rec.Bad.Problem
		}
		got = append(got, strings.TrimSpace(text))
	}
	want := []string{"a a\nball", "b.txt: it is UTF-16; save it as UTF-8, or convert it: iconv -f UTF-16 -t UTF-8 OLD > NEW",
		`c#c000 one {"caption":["one","two"],"x":null}`, `c#c001 two {"caption":["one","two"],"x":null}`, "d", "e",
		"members of sample d do not lie next to each other: these lie apart from the first ones: d.txt",
		"members of sample e do not lie next to each other: these lie apart from the first ones: e.txt"}
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("%q, want\n%q", got, want)
	}
}

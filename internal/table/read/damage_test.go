package read

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"

	"latentbeam/internal/config/document"
	"latentbeam/internal/table/pages"
	"latentbeam/internal/table/tabletest"
)

// damagedRow is a row of the tables that the tests damage.
type damagedRow struct {
	ID     string   `parquet:"id,plain"`
	Prompt *string  `parquet:"prompt,optional"`
	Seed   *int64   `parquet:"seed,optional"`
	Scale  float64  `parquet:"guidance_scale,split"`
	Colour string   `parquet:"colour,dict"`
	Flag   *bool    `parquet:"flag,optional"`
	Tags   []string `parquet:"tags"`
}

const (
	damagedRows  = 120
	damagedGroup = 40
)

// damagedSeed is a table and where its pages are.
type damagedSeed struct {
	name   string
	data   []byte
	rows   []string // as they are read
	pages  []damagedPage
	footer int
}

// damagedPage is a page and the rows that need it.
type damagedPage struct {
	kind     string // header, data, dictionary
	at, end  int
	from, to int  // rows, from 0
	loose    bool // a page that may begin in the middle of a row
}

// damagedSeeds writes tables of several row groups and pages in every codec and both versions of pages.
func damagedSeeds(t testing.TB) (seeds []damagedSeed) {
	rows := make([]damagedRow, damagedRows)
	for i := range rows {
		prompt, seed, flag := fmt.Sprintf("a red circle, number %d of %d", i, i*i), int64(i*7919), i%3 == 0
		rows[i] = damagedRow{ID: fmt.Sprintf("id-%d", i), Scale: float64(i) / 4, Colour: []string{"red", "green", "blue"}[i%3],
			Prompt: &prompt, Tags: []string{"a", "bc", "def"}[:i%4%3]}
		if i%5 != 0 {
			rows[i].Seed = &seed
		}
		if i%7 != 0 {
			rows[i].Flag = &flag
		}
	}
	for _, version := range []int{1, 2} {
		for name, codec := range map[string]compress.Codec{"none": &parquet.Uncompressed, "snappy": &parquet.Snappy,
			"gzip": &parquet.Gzip, "zstd": &parquet.Zstd} {
			path := tabletest.WriteFile(t, rows, parquet.Compression(codec), parquet.DataPageVersion(version),
				parquet.MaxRowsPerRowGroup(damagedGroup), parquet.PageBufferSize(200))
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			s := damagedSeed{name: fmt.Sprintf("%s-%d", name, version), data: data,
				footer: len(data) - 8 - int(binary.LittleEndian.Uint32(data[len(data)-8:]))}
			s.pages = pagesOf(t, path)
			s.rows = make([]string, damagedRows)
			if _, err := s.drain(path, func(i int, rec Record) { s.rows[i] = describe(rec) }); err != nil {
				t.Fatal(err)
			}
			if n := len(s.pages); n < 2*3*7*2 {
				t.Fatalf("%s has %d pages", s.name, n/2)
			}
			seeds = append(seeds, s)
		}
	}
	return seeds
}

// pagesOf lists the pages of an undamaged file.
func pagesOf(t testing.TB, path string) (out []damagedPage) {
	f, err := pages.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	from := 0
	for i := range f.RowGroups() {
		meta := &f.Metadata().RowGroups[i]
		for _, c := range f.Root().Columns() {
			leaf := pages.LeavesOf(c)[0]
			guard := pages.Guard{File: f, MaxPage: pages.MaxPromptPageBytes}
			found, err := guard.Chunk(&meta.Columns[leaf.Index()], leaf)
			if err != nil {
				t.Fatal(err)
			}
			add := func(kind string, at int64, from, rows int, loose bool) {
				header, n, err := guard.Header(at, found.End)
				if err != nil {
					t.Fatal(err)
				}
				body := int(at) + n
				out = append(out, damagedPage{kind + "header", int(at), body, from, from + rows, loose},
					damagedPage{kind + "data", body, body + int(header.CompressedPageSize), from, from + rows, loose})
			}
			if found.Dictionary > 0 {
				add("dictionary ", found.Dictionary, from, int(meta.NumRows), false)
			}
			row := from
			for _, s := range found.Spans {
				add("page ", s.At, row, s.Rows, s.Loose)
				row += s.Rows
			}
			guard.Close()
		}
		from += int(meta.NumRows)
	}
	return out
}

// drain hands over each row with its number from 0.
func (s *damagedSeed) drain(path string, row func(i int, rec Record)) (rows int, err error) {
	p, err := Open([]string{path}, Options{})
	if err != nil {
		return 0, err
	}
	defer p.Close()
	for rec, err := range p.All() {
		if err != nil {
			return rows, err
		}
		if rows < damagedRows {
			row(rows, rec)
		}
		rows++
	}
	return rows, nil
}

// describe is everything that is read of a row.
func describe(rec Record) string {
	seed := "none"
	if rec.Row.Seed != nil {
		seed = fmt.Sprint(*rec.Row.Seed)
	}
	r := rec.Row
	return fmt.Sprint(r.ID, "|", r.Prompt, "|", seed, "|", *r.GuidanceScale, "|", r.Extra)
}

var (
	namesPage  = regexp.MustCompile(`page \d+ of row group \d+`)
	namesPlace = regexp.MustCompile(`row group \d+ cannot be read: (page|pages|dictionary at byte|its pages) ?\d+`)
)

// A damaged page costs its own rows and no others; where nobody knows which rows those are, the error names file, row
// group and page. No row is taken for right that is wrong.
func TestDamagedPages(t *testing.T) {
	mutants := 2000
	if testing.Short() {
		mutants = 600
	}
	seeds := damagedSeeds(t)
	path := filepath.Join(t.TempDir(), "m.parquet")
	rng := rand.New(rand.NewPCG(14, 6))
	start, counts := time.Now(), map[string]int{}
	for i := range mutants {
		s := &seeds[i%len(seeds)]
		page := s.pages[rng.IntN(len(s.pages))]
		if rng.IntN(10) == 0 {
			page = damagedPage{kind: "footer", at: s.footer, end: len(s.data), to: damagedRows}
		}
		if page.at == page.end {
			continue
		}
		data := bytes.Clone(s.data)
		damage(rng, data[page.at:page.end])
		if bytes.Equal(data, s.data) {
			continue
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		counts[page.kind+": "+s.judge(t, fmt.Sprintf("mutant %d of %s, %s", i, s.name, page.kind), path, page)]++
	}
	t.Logf("%d mutants in %v: %v", mutants, time.Since(start).Round(time.Millisecond), counts)
	if counts["page data: rows failed"] < mutants/10 || counts["page header: refused"] == 0 ||
		counts["dictionary data: rows failed"] == 0 || counts["footer: refused"] == 0 {
		t.Error("the mutations test nothing")
	}
}

// judge reads a mutant and says how it ended.
func (s *damagedSeed) judge(t *testing.T, name, path string, page damagedPage) string {
	t.Helper()
	failed := 0
	rows, err := s.drain(path, func(i int, rec Record) {
		switch {
		case rec.Bad == nil && page.kind != "footer" && describe(rec) != s.rows[i]:
			t.Errorf("%s: row %d is taken for right: %s, not %s", name, i, describe(rec), s.rows[i])
		case rec.Bad == nil:
		case page.kind != "footer" && (i < page.from || i >= page.to):
			t.Errorf("%s: row %d fails, the page has %d to %d: %v", name, i, page.from, page.to, rec.Bad)
		case page.kind != "footer" && !namesPage.MatchString(rec.Bad.Problem):
			t.Errorf("%s: row %d: %v", name, i, rec.Bad)
		default:
			failed++
		}
	})
	var known *document.Error
	switch {
	case err == nil && rows != damagedRows && page.kind != "footer":
		t.Errorf("%s: %d rows", name, rows)
	case err != nil && !errors.As(err, &known):
		t.Errorf("%s: the job would end with 3: %v", name, err)
	case err != nil && !strings.Contains(err.Error(), path):
		t.Errorf("%s: the file is not named: %v", name, err)
	case err != nil && page.kind != "footer" && !namesPlace.MatchString(err.Error()):
		t.Errorf("%s: the place is not named: %v", name, err)
	case err != nil && page.kind == "page data" && !page.loose, err != nil && strings.HasPrefix(page.kind, "dictionary"):
		t.Errorf("%s: the rows are known, and the file is refused: %v", name, err)
	case err != nil:
		return "refused"
	case failed > 0:
		return "rows failed"
	}
	return "read"
}

// damage changes one place.
func damage(rng *rand.Rand, data []byte) {
	at := rng.IntN(len(data))
	switch rng.IntN(4) {
	case 0:
		data[at] ^= 1 << rng.IntN(8)
	case 1:
		data[at] = byte(rng.IntN(256))
	case 2:
		data[at] = []byte{0, 0xff, 0x7f, 0x80}[rng.IntN(4)]
	case 3:
		for i := at; i < min(at+1+rng.IntN(64), len(data)); i++ {
			data[i] = byte(rng.IntN(256))
		}
	}
}

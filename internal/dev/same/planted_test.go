package same

import (
	"maps"
	"strings"
	"testing"
)

// recorded returns the record of a call that computed rows a and b, and could not read the row bad.
func recorded() state {
	return state{
		{"rows", "out", "a"}:                               "aaaaaaaaaaaaaaaa vae_latent=1000000000000001",
		{"rows", "out", "b"}:                               "bbbbbbbbbbbbbbbb vae_latent=1000000000000002",
		{"rows", "out", "bad"}:                             "dddddddddddddddd", // this row cannot be read
		{"files", "out", "videos/aa/aaaaaaaaaaaaaaaa.mp4"}: "2000000000000001",
		{"files", "out", "videos/bb/bbbbbbbbbbbbbbbb.mp4"}: "2000000000000002",
		{"files", "out", "index.html"}:                     "text",
		{"ledger", "out/ledger", "aaaaaaaaaaaaaaaa"}:       `status=1 text_shape=[6,128] video.sha256="2000000000000001"`,
		{"table", "out/metadata.parquet", "key"}:           "string 300000000001",
		{"table", "out/metadata.parquet", "loop"}:          "int64 300000000002",
	}
}

// TestFindings changes the results of a call in one way and checks the report.
func TestFindings(t *testing.T) {
	video := item{"files", "out", "videos/aa/aaaaaaaaaaaaaaaa.mp4"}
	ledger := item{"ledger", "out/ledger", "aaaaaaaaaaaaaaaa"}
	loop := item{"table", "out/metadata.parquet", "loop"}
	for _, c := range []struct {
		name  string
		plant func(now state)
		says  []string // all reports, in order
	}{
		{"no change", func(state) {}, nil},
		{"a byte of a video", func(now state) { now[video] = "2fffffffffffffff" }, []string{
			"RESULTS CHANGED AND KEYS DID NOT", "aaaaaaaaaaaaaaaa.mp4 of out is 2fffffffffffffff, recorded 2000000000000001: row a of out"}},
		{"a byte of a tensor", func(now state) {
			now[item{"rows", "out", "b"}] = "bbbbbbbbbbbbbbbb vae_latent=1fffffffffffffff"
		}, []string{"RESULTS CHANGED AND KEYS DID NOT", "row b of out, key bbbbbbbbbbbbbbbb: vae_latent is 1fffffffffffffff, recorded 1000000000000002"}},
		{"a digest in the ledger", func(now state) {
			now[ledger] = `status=1 text_shape=[6,128] video.sha256="2fffffffffffffff"`
		}, []string{"RESULTS CHANGED AND KEYS DID NOT", `video.sha256 is "2fffffffffffffff", recorded "2000000000000001": row a of out`}},
		{"another key and another result", func(now state) {
			delete(now, video)
			delete(now, ledger)
			now[item{"rows", "out", "a"}] = "cccccccccccccccc vae_latent=1fffffffffffffff"
			now[item{"files", "out", "videos/cc/cccccccccccccccc.mp4"}] = "2fffffffffffffff"
			now[item{"ledger", "out/ledger", "cccccccccccccccc"}] = `status=1`
			now[item{"table", "out/metadata.parquet", "key"}] = "string 3fffffffffff"
		}, []string{"Keys changed", "row a of out has key cccccccccccccccc, recorded aaaaaaaaaaaaaaaa",
			"Columns changed", "key of out/metadata.parquet is string 3fffffffffff, recorded string 300000000001"}},
		{"the key of a row without result", func(now state) {
			now[item{"rows", "out", "bad"}] = "eeeeeeeeeeeeeeee"
		}, []string{"Other changes", "row bad of out, which has no result, has key eeeeeeeeeeeeeeee, recorded dddddddddddddddd"}},
		{"values of a column", func(now state) { now[loop] = "int64 3fffffffffff" }, []string{
			"Columns changed", "loop of out/metadata.parquet is int64 3fffffffffff, recorded int64 300000000002"}},
		{"the type of a column", func(now state) { now[loop] = "int64? 300000000002" }, []string{
			"Columns changed", "loop of out/metadata.parquet is int64? 300000000002, recorded int64 300000000002"}},
		{"a new column", func(now state) { now[item{"table", "out/metadata.parquet", "more"}] = "string 300000000003" }, []string{
			"Columns changed", "more of out/metadata.parquet is new: string 300000000003"}},
		{"a column less", func(now state) { delete(now, loop) }, []string{
			"Columns changed", "loop of out/metadata.parquet is missing"}},
		{"a new field in the ledger", func(now state) { now[ledger] += " loops=1" }, []string{
			"Other changes", "loops is new: 1: row a of out"}},
		{"a lost page", func(now state) { delete(now, item{"files", "out", "index.html"}) }, []string{
			"Other changes", "index.html of out is missing"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			now := recorded()
			c.plant(now)
			report := compareResults([]callResult{{1, "run", recorded()}}, []callResult{{1, "run", now}}).String()
			lines := strings.Split(strings.TrimSpace(report), "\n")
			if report == "" {
				lines = nil
			}
			if len(lines) != len(c.says) {
				t.Fatalf("the report has %d lines, want %d:\n%s", len(lines), len(c.says), report)
			}
			for i, part := range c.says {
				if !strings.Contains(lines[i], part) {
					t.Errorf("line %d lacks %q:\n%s", i+1, part, report)
				}
			}
		})
	}
}

// TestRecordIsRead: a record that was written can be read again. A table with the content of an earlier one is only a reference to it.
func TestRecordIsRead(t *testing.T) {
	second := state{{"files", "two words", "videos/aa/aaaaaaaaaaaaaaaa.mp4"}: "2000000000000001", {"table", "x.parquet", "*"}: gone}
	for at, value := range recorded() {
		if at.kind == "table" {
			second[item{at.kind, "again.parquet", at.name}] = value
		}
	}
	calls := []callResult{{1, "run job.yaml", recorded()}, {2, "run --limit 2", second}}
	text := formatResults(calls)
	if !strings.Contains(text, "table again.parquet as 1 out/metadata.parquet\n") {
		t.Errorf("the second table is no reference to the first:\n%s", text)
	}
	for i, c := range parseResults(t, "record", text) {
		if c.n != calls[i].n || c.call != calls[i].call || !maps.Equal(c.wrote, calls[i].wrote) {
			t.Errorf("call %d is read as %+v, want %+v", calls[i].n, c, calls[i])
		}
	}
}

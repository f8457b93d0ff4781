package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// proofRow is a row of the report: the figure of a proof or a fuzz target, when it ran, its elapsed time and its processor
// time.
type proofRow struct{ figure, date, commit, took, spent string }

// report maps the name of a proof to its row.
type report map[string]proofRow

// key returns the name of a proof in the report.
func (p proof) key() string { return "`" + p.room + "` " + strings.ReplaceAll(p.tests, "|", ", ") }

func (t target) key() string { return "`" + t.room + "` " + t.name }

// readReport reads the rows of an earlier report, if there is one.
func readReport(path string) (report, error) {
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	r := report{}
	if _, rest, found := strings.Cut(string(text), behavioursOpen); found {
		part, _, _ := strings.Cut(rest, behavioursEnd)
		r[behavioursKey] = proofRow{figure: part}
	}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if len(cells) == 7 && strings.HasPrefix(cells[1], "`") {
			r[cells[1]] = proofRow{cells[2], cells[3], cells[4], cells[5], cells[6]}
		}
	}
	return r, nil
}

const head = `# Reliability: promises and figures

Made by ` + "`make nightly`" + ` (` + "`internal/dev/proofs`" + `). Each promise has tests that name it and print a figure. ` +
	"`make test`" + ` runs
one of each, or more, with small counts, on any machine, and fails where one is skipped. ` +
	`A row shows the figure of the test
on that date, at that commit; a row without a figure was not run yet. Counts are set by environment variables
(` + "`internal/dev/proofs/table.go`" + `). ` + "`make nightly PROOFS=-release`" + ` takes the larger ones. ` +
	`[SECURITY.md](../SECURITY.md) says whom the program trusts.
The clock is that of a machine which others used too; processors is what the tests took of them, building included. A night has a
budget of 120 minutes of processors, an hour of two.

`

// The table of behaviours of buckets is written by TestBehaviours of internal/storage/store/s3, between two marks.
const (
	behavioursKey  = "behaviours"
	behavioursOpen = "<!-- behaviours of buckets, written by TestBehaviours -->\n"
	behavioursEnd  = "<!-- end of the behaviours -->\n"
	behaviours     = `
## Services that break their word

What comes of a bucket behind ` + "`s3://`" + ` that differs from AWS, by operation: the check before a job (once a day on each host), a job
without the check that meets it at its first contact, and one that meets it in its middle as it publishes, reads and lists. A
number is the exit code: 2, change something; 75, the same command may succeed later. The text is the promise that is broken,
or the code of the service. What the store does not notice in mid-run, the checksums of the ledger and of the tables do. No
operation waits without an end.

`
)

// text returns the whole report.
func (r report) text() string {
	var b strings.Builder
	b.WriteString(head)
	b.WriteString("| | promise | in `make test` |\n|---|---|---|\n")
	for _, p := range promises {
		fmt.Fprintf(&b, "| %s | %s | `%s` %s |\n", p.name, p.claim, p.room, p.test)
	}
	b.WriteString("\n## Proofs\n\n| | test | figure | date | commit | clock | processors |\n|---|---|---|---|---|---|---|\n")
	for _, p := range proofs {
		r.line(&b, p.promise, p.key())
	}
	b.WriteString(behaviours + behavioursOpen + r[behavioursKey].figure + behavioursEnd)
	b.WriteString("\n## Fuzz targets\n\nParsers of bytes from outside. Inputs that once failed are kept in " +
		"`testdata/fuzz` of their room.\n\n" +
		"| bytes | target | figure | date | commit | clock | processors |\n|---|---|---|---|---|---|---|\n")
	for _, t := range targets {
		r.line(&b, t.bytes, t.key())
	}
	b.WriteString("\nNot promised: equal bytes between numeric classes or versions of a driver; survival of a disk that " +
		"says it has synced and has not;\nprotection from somebody who can write to the output or to the memory of the machine.\n")
	return b.String()
}

func (r report) line(b *strings.Builder, of, key string) {
	s := r[key]
	if s.figure == "" {
		s.figure = "not run yet"
	}
	fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %s |\n", of, key, strings.ReplaceAll(s.figure, "|", "/"), s.date,
		s.commit, s.took, s.spent)
}

//go:build unix

package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// mistake is something that people do wrong, and what the program must say of it: the fault, its place (a file, a
// line, a flag or a row), and the remedy.
type mistake struct {
	name    string
	job     [2]string // a replacement in the job
	rows    string    // the prompt table, "": a good one
	args    []string  // nil: run job.yaml
	exit    int
	what    string
	where   string
	fix     string
	prepare func(s shell)
}

// grade is A where the message says all three, B where one is missing, C where two are, F where the exit code is wrong or
// it says nothing of what is wrong.
func (m mistake) grade(text string, exit int) string {
	if exit != m.exit || !strings.Contains(text, m.what) {
		return "F"
	}
	grade := 'A'
	for _, part := range []string{m.where, m.fix} {
		if part == "" || !strings.Contains(text, part) {
			grade++
		}
	}
	return string(grade)
}

// TestMistakes makes the mistakes and grades what the program says. LATENTBEAM_WRITE=1 writes docs/mistakes.md anew.
func TestMistakes(t *testing.T) {
	var doc strings.Builder
	doc.WriteString("# Mistakes, and what the program says\n\nMade by `LATENTBEAM_WRITE=1 go test ./internal/cli -run TestMistakes`. " +
		"A message is graded A when it says what is wrong, where, and what to do; B when one of\nwhere and what to do is missing; " +
		"C when both are; F when the exit code is wrong. The test fails below B.\n\n| # | mistake | exit | grade | first line of the answer |\n|---|---|---|---|---|\n")
	for i, m := range mistakes {
		s := newShell(t)
		job := small
		if m.job[0] != "" {
			if !strings.Contains(job, m.job[0]) {
				t.Fatalf("%s: the job has no %q", m.name, m.job[0])
			}
			job = strings.Replace(job, m.job[0], m.job[1], 1)
		}
		rows := threePrompts
		if m.rows != "" {
			rows = m.rows
		}
		s.write("job.yaml", job)
		s.write("prompts.csv", rows)
		if m.prepare != nil {
			m.prepare(s)
		}
		args := m.args
		if args == nil {
			args = []string{"run", "job.yaml"}
		}
		cmd, stdout, stderr := s.command(args...)
		_ = cmd.Run() // the exit code says it
		text := strings.ReplaceAll(stderr.String()+stdout.String(), s.dir, "DIR")
		grade := m.grade(text, cmd.ProcessState.ExitCode())
		if grade > "B" {
			t.Errorf("%s: grade %s, exit %d, want %d with %q, %q, %q:\n%s", m.name, grade, cmd.ProcessState.ExitCode(),
				m.exit, m.what, m.where, m.fix, text)
		}
		fmt.Fprintf(&doc, "| %d | %s | %d | %s | %s |\n", i+1, m.name, m.exit, grade, firstLine(text, m.what))
	}
	if len(mistakes) < 60 {
		t.Errorf("%d mistakes, want 60", len(mistakes))
	}
	path := filepath.Join("..", "..", "docs", "mistakes.md")
	if os.Getenv("LATENTBEAM_WRITE") != "" {
		if err := os.WriteFile(path, []byte(doc.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if was, err := os.ReadFile(path); err != nil || string(was) != doc.String() {
		t.Errorf("docs/mistakes.md is not what the program says (%v); run LATENTBEAM_WRITE=1 go test ./internal/cli -run TestMistakes", err)
	}
}

// firstLine is the line of a text that says what is wrong, as a cell of a table.
func firstLine(text, what string) string {
	for line := range strings.Lines(text) {
		if strings.Contains(line, what) {
			line = strings.TrimPrefix(strings.TrimSpace(line), "latentbeam: ")
			if before, _, found := strings.Cut(line, "; there are "); found { // a list that grows
				line = before + "; there are …"
			}
			if runes := []rune(line); len(runes) > 160 {
				line = string(runes[:160]) + "…"
			}
			return "`" + strings.NewReplacer("|", "\\|", "`", "'").Replace(line) + "`"
		}
	}
	return ""
}

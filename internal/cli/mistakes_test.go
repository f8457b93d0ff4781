//go:build unix

package cli

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"latentbeam/stages/catalog"
)

// mistake is a mistake of a user, and what the message must contain: the fault, its place (a file, a
// line, a flag or a row), and the remedy.
type mistake struct {
	name    string
	job     [2]string // old and new text in the job
	rows    string    // the prompt table, "": a good one
	args    []string  // nil: run job.yaml
	exit    int
	what    string
	where   string
	fix     string
	prepare func(s shell)
}

// grade returns A if the message contains all three, B if one is missing, C if two are missing, and F if the exit code is wrong or the
// message does not name the fault.
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

// TestMistakes makes the mistakes and grades the messages. Command lines run in this process, jobs in a process of their own. Messages
// of other packages are pinned there: about job files in internal/config/testdata/bad, about the order of stages in stages, about
// tables in internal/table/read. LATENTBEAM_WRITE=1 writes docs/mistakes.md, including the messages about job files.
func TestMistakes(t *testing.T) {
	var doc strings.Builder
	doc.WriteString("# Mistakes, and what the program says\n\nMade by `LATENTBEAM_WRITE=1 go test ./internal/cli -run TestMistakes`. " +
		"A message is graded A when it says what is wrong, where, and what to do; B when one of\nwhere and what to do is missing; " +
		"C when both are; F when the exit code is wrong. The test fails below B.\n\n## In a job file\n\nThe exit code is 2. " +
		"What follows the first line is the place in the file and what to do.\n\n| mistake | first line of the answer |\n|---|---|\n")
	jobFiles(t, &doc)
	doc.WriteString("\n## In a command line, a job and its output\n\n| mistake | exit | grade | first line of the answer |\n|---|---|---|---|\n")
	for _, m := range wrongCommands {
		m.make(t, &doc, shell.inProcess)
	}
	for _, m := range wrongJobs {
		m.make(t, &doc, func(s shell, args ...string) (string, int) {
			cmd, stdout, stderr := s.command(args...)
			_ = cmd.Run() // the exit code shows errors
			return stderr.String() + stdout.String(), cmd.ProcessState.ExitCode()
		})
	}
	path := filepath.Join("..", "..", "docs", "mistakes.md")
	if os.Getenv("LATENTBEAM_WRITE") != "" {
		if err := os.WriteFile(path, []byte(doc.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if was, err := os.ReadFile(path); err != nil || string(was) != doc.String() {
		t.Errorf("docs/mistakes.md differs from the messages of the program (%v); run LATENTBEAM_WRITE=1 go test ./internal/cli -run TestMistakes", err)
	}
}

// make makes the mistake in a new directory and adds a row to the document.
func (m mistake) make(t *testing.T, doc *strings.Builder, run func(s shell, args ...string) (string, int)) {
	t.Helper()
	s := newShell(t)
	job := small
	if m.job[0] != "" {
		if !strings.Contains(job, m.job[0]) {
			t.Fatalf("%s: the job has no %q", m.name, m.job[0])
		}
		job = strings.Replace(job, m.job[0], m.job[1], 1)
	}
	s.write("job.yaml", job)
	s.write("prompts.csv", cmp.Or(m.rows, threePrompts))
	if m.prepare != nil {
		m.prepare(s)
	}
	args := m.args
	if args == nil {
		args = []string{"run", "job.yaml"}
	}
	text, exit := run(s, args...)
	text = strings.ReplaceAll(text, s.dir, "DIR")
	grade := m.grade(text, exit)
	if grade > "B" {
		t.Errorf("%s: grade %s, exit %d, want %d with %q, %q, %q:\n%s", m.name, grade, exit, m.exit, m.what, m.where, m.fix, text)
	}
	fmt.Fprintf(doc, "| %s | %d | %s | %s |\n", m.name, m.exit, grade, firstLine(text, m.what))
}

// inProcess runs a command line in this process, in the directory of the shell, and returns all it printed and the exit code.
func (s shell) inProcess(args ...string) (text string, exit int) {
	s.t.Helper()
	here, err := os.Getwd()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := os.Chdir(s.dir); err != nil {
		s.t.Fatal(err)
	}
	defer func() {
		if err := os.Chdir(here); err != nil {
			s.t.Fatal(err)
		}
	}()
	var out strings.Builder
	exit = execute(s.t.Context(), catalog.All(), args, &out, &out)
	return out.String(), exit
}

// jobFiles adds the messages about job files, which TestBadFiles of internal/config checks.
func jobFiles(t *testing.T, doc *strings.Builder) {
	t.Helper()
	files, err := filepath.Glob("../config/testdata/bad/*.txt")
	if err != nil || len(files) < 40 {
		t.Fatalf("got %d messages, %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		fmt.Fprintf(doc, "| %s | %s |\n", strings.ReplaceAll(name, "_", " "), firstLine(string(text), name))
	}
}

// firstLine returns the line of a text that contains what, in the form of a cell of a table.
func firstLine(text, what string) string {
	for line := range strings.Lines(text) {
		if strings.Contains(line, what) {
			line = strings.TrimPrefix(strings.TrimSpace(line), "latentbeam: ")
			if before, _, found := strings.Cut(line, "; there are "); found { // leave out the list, because it grows
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

package cli

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"latentbeam/stages/catalog"
)

var (
	// shownLine matches a command on a line of its own in a document, shownSpan a command inside a sentence.
	shownLine = regexp.MustCompile("^ *(?:\\$ |[-\\d *]+ cd \\S+ && )?(?:\\S*/)?latentbeam ([a-z][^`]*)$")
	shownSpan = regexp.MustCompile("`latentbeam ([a-z][^`]*)`")
	// behind matches a comment or a redirection after a command.
	behind = regexp.MustCompile(` (?:#|\d?>|\||&&).*`)
	// word matches a word of a shell, quoted or not.
	word = regexp.MustCompile(`(?:\$\([^)]*\)|'[^']*'|"[^"]*"|[^\s'"])+`)
)

// TestDocumentedCommands: the program accepts every command that README.md and docs show, with its flags and arguments. A command
// inside a sentence may lack arguments.
func TestDocumentedCommands(t *testing.T) {
	root := os.DirFS("../..")
	found := 0
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(name) != ".md" || name != "README.md" && !strings.HasPrefix(name, "docs/") ||
			name == "docs/reference.md" { // this page is made from the code
			return err
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		fenced := false
		for i, line := range strings.Split(string(text), "\n") {
			if strings.HasPrefix(line, "```") {
				fenced = !fenced
			}
			shown, whole := shownSpan.FindAllStringSubmatch(line, -1), false
			if m := shownLine.FindStringSubmatch(line); m != nil && (fenced || strings.HasPrefix(line, "    ")) {
				shown, whole = [][]string{m}, true
			}
			for _, m := range shown {
				found++
				if err := documented(m[1], whole); err != nil {
					t.Errorf("%s:%d: latentbeam %s: %v", name, i+1, m[1], err)
				}
			}
		}
		return nil
	})
	if err != nil || found < 80 {
		t.Errorf("found only %d commands: %v", found, err)
	}
}

// documented returns why the program does not accept a command line, or nil. If whole is set, no argument may be missing.
func documented(line string, whole bool) error {
	line = behind.ReplaceAllString(line, "")
	var args []string
	for _, w := range word.FindAllString(line, -1) {
		args = append(args, strings.NewReplacer("'", "", `"`, "").Replace(w))
	}
	cmd, rest, err := rootCommand(catalog.All()).Find(args)
	if err != nil {
		return err
	}
	if !cmd.HasParent() {
		return fmt.Errorf("there is no command %s", args[0])
	}
	if err := cmd.ParseFlags(rest); err != nil && (whole || !strings.Contains(err.Error(), "flag needs an argument")) {
		return err
	}
	if whole {
		return cmd.ValidateArgs(cmd.Flags().Args())
	}
	return nil
}

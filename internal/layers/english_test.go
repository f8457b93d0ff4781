package layers

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// mostRelative is how many sentences of comments and pages may have three relative words or more. It only goes down.
const mostRelative = 10

var (
	relative = regexp.MustCompile(`(?i)\b(that|which|what|who|whose|whom|whatever)\b`)
	// sentenceEnd ends a sentence: punctuation, an empty line or an item of a list.
	sentenceEnd = regexp.MustCompile(`[.:;?!](\s|$)|\n\s*\n|\n\s*[-*] `)
	// notProse matches rows of tables, and code that is indented.
	notProse = regexp.MustCompile(`(?m)^(\||\t| {4}).*$`)
	fenced   = regexp.MustCompile("(?s)```.*?```")
)

// TestPlainEnglish: readers with school English stumble over stacked relative clauses. A sentence with three relative
// words is split, or says the field's noun instead of describing it (CONTRIBUTING.md).
func TestPlainEnglish(t *testing.T) {
	var found []string
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch name := d.Name(); {
		case d.IsDir() && (name == ".git" || name == "testdata" && !strings.HasSuffix(path, "../testdata")):
			return filepath.SkipDir
		case strings.HasSuffix(name, ".go"):
			found = append(found, inComments(t, path)...)
		case strings.HasSuffix(name, ".md"):
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			found = append(found, inProse(path, fenced.ReplaceAllString(string(text), "\n\n"))...)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) > mostRelative {
		t.Errorf("%d sentences have three relative words or more, %d were allowed; split the new ones:\n%s",
			len(found), mostRelative, strings.Join(found, "\n"))
	}
}

// inComments returns the sentences of a Go file's comments that have too many relative words.
func inComments(t *testing.T, path string) (found []string) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	for _, comment := range file.Comments {
		found = append(found, inProse(path, comment.Text())...)
	}
	return found
}

// inProse returns the sentences of text that have too many relative words.
func inProse(path, text string) (found []string) {
	for _, sentence := range sentenceEnd.Split(notProse.ReplaceAllString(text, "\n"), -1) {
		if len(relative.FindAllString(sentence, -1)) >= 3 {
			found = append(found, path+": "+strings.Join(strings.Fields(sentence), " "))
		}
	}
	return found
}

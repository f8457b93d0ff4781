package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

var (
	relative = regexp.MustCompile(`(?i)\b(that|which|what|who|whose|whom|whatever)\b`)
	// sentenceEnd ends a sentence: punctuation, an empty line or an item of a list.
	sentenceEnd = regexp.MustCompile(`[.:;?!](\s|$)|\n\s*\n|\n\s*[-*] `)
	// notProse matches rows of tables, and code that is indented.
	notProse = regexp.MustCompile(`(?m)^(\||\t| {4}).*$`)
	fenced   = regexp.MustCompile("(?s)```.*?```")
)

// hardSentences lists the sentences of comments and pages below dir that have three relative words or more, each with
// its file.
func hardSentences(dir string) (found []string, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch name := d.Name(); {
		case d.IsDir() && (name == ".git" || name == "testdata" && path != filepath.Join(dir, name)):
			return filepath.SkipDir
		case strings.HasSuffix(name, ".go"):
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
			if err != nil {
				return err
			}
			for _, comment := range file.Comments {
				found = append(found, inProse(path, comment.Text())...)
			}
		case strings.HasSuffix(name, ".md"):
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			found = append(found, inProse(path, fenced.ReplaceAllString(string(text), "\n\n"))...)
		}
		return nil
	})
	return found, err
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

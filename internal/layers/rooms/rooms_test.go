package main

import (
	"strings"
	"testing"
)

// root is the checkout, seen from here.
const root = "../../.."

// mostHard is how many sentences of comments and pages may have three relative words or more. It only goes down.
const mostHard = 0

// TestPlainEnglish: readers with school English stumble over stacked relative clauses. A sentence with three relative
// words is split, or says the field's noun instead of describing it (CONTRIBUTING.md).
func TestPlainEnglish(t *testing.T) {
	found, err := hardSentences(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(found) > mostHard {
		t.Errorf("%d sentences have three relative words or more, %d were allowed; split the new ones:\n%s",
			len(found), mostHard, strings.Join(found, "\n"))
	}
}

// mostWide is how many lines of tests may be wider than mostColumns: rows of tables of cases. It only goes down.
const mostWide = 193

// TestLineWidth: a reader sees a line of code whole, also in two windows side by side.
func TestLineWidth(t *testing.T) {
	code, tests, err := wideLines(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range code {
		t.Errorf("%s has more than %d columns: break it", line, mostColumns)
	}
	if len(tests) > mostWide {
		t.Errorf("%d lines of tests have more than %d columns, %d were allowed; break the new ones:\n%s",
			len(tests), mostColumns, mostWide, strings.Join(tests, "\n"))
	}
}

// TestHomonyms: a reader who meets a type's name in a third room takes it for one of the two that he knows.
func TestHomonyms(t *testing.T) {
	tree, err := read(root)
	if err != nil {
		t.Fatal(err)
	}
	found := tree.homonyms()
	for _, name := range strings.Fields(waiting) {
		if found[name] == nil {
			t.Errorf("%s has become rare: remove it from the list waiting", name)
		}
		delete(found, name)
	}
	for name, homes := range found {
		t.Errorf("%d rooms have a type %s: %s. Rename one, or, if all mean one thing, add the word to words.go",
			len(homes), name, strings.Join(homes, " "))
	}
	for name := range words {
		if len(tree.types[name]) <= mostHomes {
			t.Errorf("words.go has %s, which no more than %d rooms use: remove it", name, mostHomes)
		}
	}
}

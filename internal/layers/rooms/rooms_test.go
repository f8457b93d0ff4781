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
const mostWide = 192

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

// TestMetaphors: one way of working has one word, and it is the field's.
func TestMetaphors(t *testing.T) {
	tree, err := read(root)
	if err != nil {
		t.Fatal(err)
	}
	used := tree.words()
	for _, word := range strings.Fields(metaphors) {
		for _, word := range []string{word, word + "s"} {
			if at := used[word]; at.IsValid() {
				t.Errorf("%s: %q is a metaphor; take a term of the field", tree.fset.Position(at), word)
			}
		}
	}
}

// mostExplained is how many words a newcomer has to learn.
const mostExplained = 40

// TestGlossary: the list of words stays short, and each stands in the code.
func TestGlossary(t *testing.T) {
	words, err := glossary(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(words) == 0 || len(words) > mostExplained {
		t.Errorf("ARCHITECTURE.md explains %d words, %d are the most: drop one that says nothing new", len(words), mostExplained)
	}
	tree, err := read(root)
	if err != nil {
		t.Fatal(err)
	}
	used := tree.words()
	for _, word := range words {
		for _, part := range strings.Fields(word) {
			if !used[part].IsValid() && !used[part+"s"].IsValid() && !used[strings.TrimSuffix(part, "s")].IsValid() {
				t.Errorf("ARCHITECTURE.md explains %q, which no name in the code has", word)
			}
		}
	}
}

package main

import (
	"go/ast"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// mostHomes is how many rooms may declare a type of one name.
const mostHomes = 2

// words are the names of types that more rooms may have, because each room has its own of one thing.
var words = map[string]string{
	"Backend":   "kernels.Backend, and a device's implementation of it",
	"Batch":     "what a stage takes at once, as the room sees it",
	"Clock":     "time that a test can bring",
	"Config":    "settings as a file writes them: a model's config.json, the job",
	"Encoder":   "what encodes a text, an image or a clip",
	"Error":     "an error of the room's own kind",
	"Library":   "a shared library that is looked for at run time",
	"Model":     "a network with its weights on a device, or the files of one",
	"Options":   "settings of a room or of its main function",
	"Tensor":    "numbers with a shape and a type, wherever they lie",
	"attention": "a part of a network, as its reference names it",
	"batch":     "a network on some rows",
	"block":     "a part of a network, as its reference names it; of a kernel: a part of a matrix",
	"decoder":   "what undoes the encoding of the room",
	"denoiser":  "a model of a family with the options of a job",
	"encoder":   "what encodes in the way of the room",
	"layer":     "a part of a network, as its reference names it",
	"norm":      "a normalisation, as its reference defines it",
	"options":   "a stage's map in the job file",
	"service":   "the requests of one protocol",
	"stage":     "the stages.Stage of the room",
}

// metaphors are words of other trades that once stood for ways of working. The terms of the field replace them: rank,
// pipeline, batch, publish. "In flight" is Flink's term, "round trip" that of networks.
const metaphors = "seat trip flight fly belt relay fate"

var (
	// term matches the terms of the field that contain a metaphor.
	term = regexp.MustCompile(`(?i)in_?flight|round_?trip`)
	// part matches a word of an identifier: "Seat" in "newSeatOf".
	part = regexp.MustCompile(`[A-Z]?[a-z]+|[A-Z]+`)
)

// words returns the words of all identifiers, in lower case, each with a place.
func (t *tree) words() map[string]token.Pos {
	found := map[string]token.Pos{}
	for _, f := range t.files {
		ast.Inspect(f.File, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				for _, word := range part.FindAllString(term.ReplaceAllString(id.Name, ""), -1) {
					found[strings.ToLower(word)] = id.Pos()
				}
			}
			return true
		})
	}
	return found
}

// glossary returns the words that ARCHITECTURE.md explains.
func glossary(dir string) (found []string, err error) {
	text, err := os.ReadFile(filepath.Join(dir, "ARCHITECTURE.md"))
	if err != nil {
		return nil, err
	}
	_, after, _ := strings.Cut(string(text), "\n## Words\n")
	section, _, _ := strings.Cut(after, "\n## ")
	_, rows, _ := strings.Cut(section, "|---|---|\n")
	for row := range strings.Lines(rows) {
		if word, _, ok := strings.Cut(strings.TrimPrefix(row, "| "), " |"); ok {
			found = append(found, word)
		}
	}
	return found, nil
}

// homonyms returns the names of types that too many rooms declare, each with its rooms.
func (t *tree) homonyms() map[string][]string {
	found := map[string][]string{}
	for name, homes := range maps.All(t.types) {
		homes = slices.Compact(slices.Sorted(slices.Values(homes)))
		if words[name] == "" && len(homes) > mostHomes {
			found[name] = homes
		}
	}
	return found
}

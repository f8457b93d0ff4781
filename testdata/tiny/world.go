package tiny

import (
	"slices"
	"strings"
	"unicode"
)

// What the model was trained on: train/README.md has the whole of it.
const (
	Side   = 64 // pixels, of both sides
	Frames = 16
)

var (
	colours = []string{"red", "orange", "yellow", "green", "blue", "purple", "violet"}
	shapes  = []string{"circle", "ball", "disc", "disk", "square", "box", "block", "triangle"}
)

// World says in one sentence what the model draws.
const World = "the built-in model was trained on 64x64 videos of 16 frames in which one red, orange, yellow, green, blue or " +
	"purple circle, square or triangle moves left, right, up or down, or stays, on black, grey or white"

// Knows reports whether the model was trained on such prompts: they name a colour and a shape that it has seen.
func Knows(prompt string) bool {
	words := strings.FieldsFunc(strings.ToLower(prompt), func(r rune) bool { return !unicode.IsLetter(r) })
	has := func(known []string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(known, w) })
	}
	return has(colours) && has(shapes)
}

package clean

import (
	"strings"

	"latentbeam/stages/t5/ftfy"
)

// Prompt prepares a prompt for the tokenizer as diffusers' Wan pipelines do (prompt_clean of 0.42.1): the text is
// repaired, HTML entities are decoded twice, and white space becomes single spaces with none at the ends. Case and
// markup stay. Bytes that are not UTF-8 count as U+FFFD.
//
// diffusers skips the repair where ftfy is not installed; here it is always done, as in the original.
func Prompt(prompt string) string {
	prompt = ftfy.Fix(strings.ToValidUTF8(prompt, "\uFFFD"))
	prompt = ftfy.UnescapeHTML(ftfy.UnescapeHTML(prompt))
	return strings.Join(strings.FieldsFunc(prompt, ftfy.IsSpace), " ")
}

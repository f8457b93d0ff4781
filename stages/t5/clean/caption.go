package clean

import (
	"strings"

	"latentbeam/stages/t5/ftfy"
)

// Caption prepares a caption for the tokenizer exactly as the training data was prepared (Open-Sora v1.0 to v1.2,
// T5Embedder.text_preprocessing, copied from DeepFloyd IF): lower case, no URLs, markup, handles, Chinese characters, file
// names, article numbers and the like. As in the reference there are two passes, because the first one may produce text that
// must be cleaned again.
//
// If the reference would raise an error on broken markup ("<![x"), the text is cleaned without parsing markup. Bytes that are
// not UTF-8 count as U+FFFD. Time is linear in len(caption).
func Caption(caption string) string { return openSora.twice(caption) }

// PlanCaption cleans as Open-Sora-Plan 1.2 does. Its code is diffusers' copy of the same functions, with two differences: it
// does not delete ideographs, and it does not remove white space at the ends before the last steps, so these do not find quotes
// and marks there.
func PlanCaption(caption string) string { return openSoraPlan.twice(caption) }

// style describes the differences between the copies of the code.
type style struct {
	delete step // deletes characters
	strip  bool // removes white space at the ends before trimMarks
}

var (
	// Deletes strokes, phonetic extensions, enclosed and compatibility characters and hexagrams. Open-Sora also deletes the
	// unified ideographs from U+4E00 on.
	openSora     = style{replacing(`[\x{31c0}-\x{9fff}]+`, ""), true}
	openSoraPlan = style{replacing(`[\x{31c0}-\x{4dff}]+`, ""), false}

	deleteHandles = replacing(`@[\w]+`, "")
)

func (s style) twice(caption string) string {
	return s.once(s.once(strings.ToValidUTF8(caption, "\uFFFD")))
}

// once is one pass. The steps have the reference's order, and many depend on it.
func (s style) once(caption string) string {
	caption = unquotePlus(caption)
	caption = LowerCase(strings.TrimFunc(caption, ftfy.IsSpace))
	caption = strings.ReplaceAll(caption, "<person>", "person")
	caption = string(deleteURLs(deleteURLs(text(caption), "http"), "www"))
	caption = htmlText(caption)

	caption = applySteps(s.delete(deleteHandles(caption)), stepsBeforeRepair)
	caption = ftfy.UnescapeHTML(ftfy.UnescapeHTML(ftfy.Fix(caption)))
	if s.strip {
		caption = strings.TrimFunc(caption, ftfy.IsSpace)
	}

	return trimMarks(applySteps(caption, stepsAfterRepair))
}

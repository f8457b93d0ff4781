package clean

import (
	"strings"

	"latentbeam/stages/t5/ftfy"
)

// Caption prepares a caption for the tokenizer exactly as the training data was prepared (Open-Sora
// v1.0 to v1.2, T5Embedder.text_preprocessing, taken over from DeepFloyd IF): lower case, no URLs, markup,
// handles, Chinese characters, file names, article numbers and the like. As in the reference there are two passes, because
// the first one may produce text that has to be cleaned again.
//
// Where the reference raises an error on broken markup ("<![x"), the text is cleaned without reading
// markup. Bytes that are not UTF-8 count as U+FFFD. Time is linear in len(caption).
func Caption(caption string) string { return openSora.twice(caption) }

// PlanCaption cleans as Open-Sora-Plan 1.2 does. Its code is diffusers' copy of the same functions, with two differences:
// ideographs stay, and white space at the ends is not removed before the last steps, so these do not see the marks there.
func PlanCaption(caption string) string { return openSoraPlan.twice(caption) }

// style describes how the copies of the code differ.
type style struct {
	delete step // characters
	strip  bool // white space at the ends, before the marks there
}

var (
	// Strokes, phonetic extensions, enclosed and compatibility characters and hexagrams go. In Open-Sora the unified
	// ideographs go too, which begin at U+4E00.
	openSora     = style{replacing(`[\x{31c0}-\x{9fff}]+`, ""), true}
	openSoraPlan = style{replacing(`[\x{31c0}-\x{4dff}]+`, ""), false}

	deleteHandles = replacing(`@[\w]+`, "")
)

func (s style) twice(caption string) string {
	return s.once(s.once(strings.ToValidUTF8(caption, "\uFFFD")))
}

// once is one pass. The order of the steps is the reference's, and many depend on it.
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

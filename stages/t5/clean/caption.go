package clean

import (
	"strings"

	"latentbeam/internal/ftfy"
)

// Caption prepares a caption for the tokenizer exactly as the training data was prepared (Open-Sora
// v1.0 to v1.2, T5Embedder.text_preprocessing, taken over from DeepFloyd IF): lower case, no URLs, markup,
// handles, Chinese characters, file names, article numbers and the like. Two passes, as there, because the
// first one may uncover work for the second.
//
// Where the reference raises an error on broken markup ("<![x"), the text is cleaned without reading
// markup. Bytes that are not UTF-8 count as U+FFFD. Time is linear in len(caption).
func Caption(caption string) string { return openSora.twice(caption) }

// PlanCaption is the cleaning of Open-Sora-Plan 1.2, which took the same code over from diffusers: ideographs stay, and
// white space at the ends hides marks from the last steps.
func PlanCaption(caption string) string { return openSoraPlan.twice(caption) }

// style is what tells the copies of the code apart.
type style struct {
	deleted func(rune) bool // characters
	strip   bool            // white space at the ends, before the marks there
}

var (
	openSora     = style{isChinese, true}
	openSoraPlan = style{func(r rune) bool { return isChinese(r) && r < firstIdeograph }, false}
)

func (s style) twice(caption string) string {
	return s.once(s.once(strings.ToValidUTF8(caption, "\uFFFD")))
}

// once is one pass. The order of the steps is the reference's, and many depend on it.
func (s style) once(caption string) string {
	caption = unquotePlus(caption)
	caption = lowerCase(strings.TrimFunc(caption, ftfy.IsSpace))
	caption = strings.ReplaceAll(caption, "<person>", "person")
	caption = string(deleteURLs(deleteURLs(text(caption), "http"), "www"))
	caption = htmlText(caption)

	caption = string(replacing(runOf(s.deleted), "")(replacing(handle, "")(text(caption))))
	caption = string(applySteps(text(caption), stepsBeforeRepair))
	caption = ftfy.UnescapeHTML(ftfy.UnescapeHTML(ftfy.Fix(caption)))
	if s.strip {
		caption = strings.TrimFunc(caption, ftfy.IsSpace)
	}

	return trimMarks(string(applySteps(text(caption), stepsAfterRepair)))
}

// A step rewrites a caption.
type step func(text) text

func applySteps(t text, steps []step) text {
	for _, s := range steps {
		t = s(t)
	}
	return t
}

var stepsBeforeRepair = []step{
	replacing(runOf(isDash), "-"),
	straightenQuotes,
	replacing(quotEntity, ""),
	replacing(literal("&amp"), ""),
	replacing(ipAddress, " "),
	deleteTrailingTime,
	replacing(literal(`\n`), " "),
	replacing(shortHashNumber, ""),
	replacing(longHashNumber, ""),
	replacing(longNumber, ""),
	deleteFileNames,
	replacing(twoOrMore(isQuote), `"`),
	replacing(twoOrMore(isDot), " "),
	replacing(runOf(isBadPunctuation), " "),
	replacing(loneDot, " "),
	splitDashed,
}

var stepsAfterRepair = []step{
	replacing(lettersDigits, ""),
	replacing(lettersDigitsLetters, ""),
	replacing(digitsLettersDigits, ""),
	replacing(shipping, ""),
	replacing(download, ""),
	replacing(clickFor, ""),
	replacing(fileType, ""),
	replacing(pageNumber, ""),
	replacing(codeSoup, " "),
	replacing(pixelSize, ""),
	replacing(spacedColon, ": "),
	spaceAfterMarks,
	replacing(runOf(ftfy.IsSpace), " "),
}

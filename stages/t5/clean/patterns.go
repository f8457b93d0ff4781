package clean

import (
	"regexp"
	"strings"
	"sync"
	"unicode"

	"latentbeam/stages/t5/ftfy"
)

// A step rewrites a caption.
type step func(string) string

func applySteps(caption string, steps []step) string {
	for _, s := range steps {
		caption = s(caption)
	}
	return caption
}

// classes replaces \w, \d and \s of Python's regular expressions, which are Unicode's; in package regexp they are ASCII's. The
// replacements must be inside brackets.
var classes = strings.NewReplacer(`\w`, `\pL\pN_`, `\d`, `\p{Nd}`, `\s`, `\s\v\x1c-\x1f\x{85}\pZ`)

// Boundaries of words. Package regexp has no look-around, so a boundary matches the adjacent character as a group.
const (
	wordStart = `(^|[^\w])`
	wordEnd   = `($|[^\w])`
)

// aDigit must only be used in patterns that match no text without a decimal digit.
const aDigit = `[\d]`

// replacing returns a step that replaces every match by with, from left to right.
func replacing(pattern, with string) step {
	re := sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(classes.Replace(pattern)) }) // most jobs clean no captions
	digits := strings.Contains(pattern, aDigit)
	return func(caption string) string {
		if digits && !strings.ContainsFunc(caption, unicode.IsDigit) { // true for most captions
			return caption
		}
		return re().ReplaceAllString(caption, with)
	}
}

// replacingBetween is replacing for a pattern with a wordEnd. The adjacent character that a match consumes may belong to the
// next match; another pass finds it.
func replacingBetween(pattern, with string) step {
	once := replacing(pattern, with)
	return func(caption string) string {
		for {
			before := caption
			if caption = once(before); caption == before {
				return caption
			}
		}
	}
}

// deletingWords returns a step that deletes whole words.
func deletingWords(pattern string) step {
	return replacingBetween(wordStart+pattern+wordEnd, "$1$2")
}

const (
	fileTypes = `(?:png|jpg|jpeg|bmp|webp|eps|pdf|apk|mp4)`
	dashes    = `[-\x{58a}\x{5be}\x{1400}\x{1806}\x{2010}-\x{2015}\x{2e17}\x{2e1a}\x{2e3a}\x{2e3b}\x{2e40}` +
		`\x{301c}\x{3030}\x{30a0}\x{fe31}\x{fe32}\x{fe58}\x{fe63}\x{ff0d}]+`
)

var stepsBeforeRepair = []step{
	replacing(dashes, "-"),
	replacing("[`´«»“”¨]", `"`),
	replacing(`[‘’]`, `'`),
	replacing(`&quot;?`, ""),
	replacing(`&amp`, ""),
	replacing(`[\d]{1,3}(?:\.[\d]{1,3}){3}`, " "), // an IP address
	replacing(`[\d]:[\d]{2}[\s]+$`, ""),           // a time at the end
	replacing(`\\n`, " "),
	replacingBetween(`#[\d]{1,3}`+wordEnd, "$1"),
	replacingBetween(`#[\d]{5,}`+wordEnd, "$1"),
	deletingWords(`[\d]{6,}`),
	replacing(`[^\s]+\.`+fileTypes, ""),
	replacing(`["']{2,}`, `"`),
	replacing(`\.{2,}`, " "),
	replacing(`[#®•©™&@·º½¾¿¡§~)(\]\[}{|\\/*]+`, " "),
	replacing(`[\s]+\.[\s]+`, " "),
	splitDashed,
}

var stepsAfterRepair = []step{
	deletingWords(`[a-zA-Z]{1,3}[\d]{3,15}`), // jc6640
	deletingWords(`[a-zA-Z]+[\d]+[a-zA-Z]+`), // jc6640vc
	deletingWords(`[\d]+[a-zA-Z]+[\d]+`),     // 6640vc231
	replacing(`(?:worldwide[\s]+)?(?:free[\s]+)?shipping`, ""),
	replacing(`(?:free[\s])?download(?:[\s]free)?`, ""),
	replacing(wordStart+`click[\s](?:for|on)[\s][\w]+`, "$1"),
	replacing(wordStart+fileTypes+`(?:[\s]images?)?`, "$1"),
	deletingWords(`page[\s]+[\d]+`),
	replacingBetween(wordStart+`[\d]*[a-zA-Z]+[\d]+[a-zA-Z]+[\d]+[a-zA-Z\d]*`+wordEnd, "$1 $2"), // j2d1a2a
	// 1920x1080, with a Latin x, a Cyrillic х or ×. The dot and the digits after it are included if a boundary follows.
	replacingBetween(wordStart+`[\d]+\.?[\d]*[xх×][\d]+(?:\.[\d]+`+wordEnd+`|\.([\w])|`+wordEnd+`)`, "$1$2$3$4"),
	replacing(`([\w])[\s]+:[\s]+`, "$1: "),
	replacingBetween(`([^\d][,./])([\w])`, "$1 $2"),
	replacing(`[\s]+`, " "),
}

// splitDashed replaces hyphens and underscores by spaces if there are more than three: this-is-my-cute-cat.
func splitDashed(caption string) string {
	const most = 3
	if strings.Count(caption, "-")+strings.Count(caption, "_") <= most {
		return caption
	}
	return strings.NewReplacer("-", " ", "_", " ").Replace(caption)
}

// trimMarks removes one pair of quotes around the text, one mark at either end, and spaces at the ends. A text that then starts
// with a dot and has no space is removed completely. White space consists of single spaces here.
func trimMarks(s string) string {
	isQuote := func(c byte) bool { return c == '"' || c == '\'' }
	if n := len(s); n > 2 && isQuote(s[0]) && isQuote(s[n-1]) {
		s = s[1 : n-1]
	}
	if s != "" && strings.ContainsRune("'_,-:;", rune(s[0])) {
		s = s[1:]
	}
	if n := len(s); n > 0 && strings.ContainsRune("'_,-:+", rune(s[n-1])) {
		s = s[:n-1]
	}
	if len(s) > 1 && s[0] == '.' && !strings.Contains(s, " ") {
		return ""
	}
	return strings.TrimFunc(s, ftfy.IsSpace)
}

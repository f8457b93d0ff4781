package ftfy

import "strings"

// accented and strange are unions that the rules use again and again.
const (
	accented = lowerAccented | upperAccented
	// strange are the classes that do not stand beside a bad character, on either side.
	strange = accented | box | startPunct | endPunct | currency | numeric | law
)

// pairs are neighbours that no text has on purpose: a character of the first set and one of the second.
var pairs = [][2]class{
	{bad | strange, bad},
	{bad, strange},
	{lowerAccented | lowerCommon | box | endPunct | currency | numeric, upperAccented},
	{box | endPunct | currency | numeric, lowerAccented},
	{lowerAccented | box | endPunct, currency},
	{upperAccented | box, numeric | law},
	{currency | numeric | box, startPunct},
	{box, kaomoji},
	{accented | currency | numeric | startPunct | endPunct | law, box},
	{box, endPunct},
}

// triples are three neighbours that no text has on purpose.
var triples = [][3]class{
	{accented | box | currency | endPunct, startPunct, numeric},
	{accented | currency | numeric | box | law, endPunct, startPunct},
}

// isBad says whether some characters of text stand where they hardly do unless it is mojibake. Every
// rule looks at a few neighbours; one that fits is enough.
func isBad(text []rune) bool {
	for i, r := range text {
		if r < 0x80 {
			if badAfterASCII(text, i) {
				return true
			}
			continue
		}
		k := classOf(r)
		if k&c1 != 0 {
			return true
		}
		next := text[i+1:]
		if len(next) == 0 {
			return false
		}
		if k != 0 && badClasses(k, next) || badSequence(r, k, text, i) || IsSpace(r) && badCurrency(next) {
			return true
		}
	}
	return false
}

// badClasses are the rules about classes alone, of a character of class k and those after it.
func badClasses(k class, next []rune) bool {
	k1 := classOf(next[0])
	for _, p := range pairs {
		if k&p[0] != 0 && k1&p[1] != 0 {
			return true
		}
	}
	if k&upperAccented != 0 && next[0] == '°' {
		return true
	}
	if len(next) < 2 {
		return false
	}
	k2 := classOf(next[1])
	for _, t := range triples {
		if k&t[0] != 0 && k1&t[1] != 0 && k2&t[2] != 0 {
			return true
		}
	}
	return k&accented != 0 && k1&(startPunct|endPunct) != 0 && IsWord(next[1])
}

// badAfterASCII are the rules that begin with an ASCII letter, space or mark at i.
func badAfterASCII(text []rune, i int) bool {
	at := func(j int) rune {
		if i+j < len(text) {
			return text[i+j]
		}
		return -1
	}
	if at(1) < 0x80 && at(2) < 0x80 {
		return false
	}
	r, k1, k2 := text[i], classOf(max(at(1), 0)), classOf(max(at(2), 0))
	lower := r >= 'a' && r <= 'z'
	letter := lower || r >= 'A' && r <= 'Z'
	switch {
	case letter && k1&(lowerCommon|upperCommon) != 0 && k2&bad != 0:
	case IsSpace(r) && badCurrency(text[i+1:]):
	case lower && k1&upperAccented != 0 && k2&(startPunct|currency) != 0:
	case lower && isAOrAHat(at(1)) && at(2) == ' ':
	case lower && at(1) >= 0 && IsSpace(at(1)) && isAOrAHat(at(2)) && at(3) == ' ':
	case (lower || strings.ContainsRune(".,?!", r)) && at(1) == 'Â' && isCopied(at(2)):
	default:
		return false
	}
	return true
}

// badCurrency says whether text starts with an accented capital and a currency sign, after a space.
func badCurrency(text []rune) bool {
	return len(text) > 1 && classOf(text[0])&upperAccented != 0 && classOf(text[1])&currency != 0
}

// isAOrAHat: Ã and Â before a space are "à" and the no-break space, read as Windows-1252.
func isAOrAHat(r rune) bool { return r == 'Ã' || r == 'Â' }

// isCopied says whether the Â before r may be the encoding of r itself.
func isCopied(r rune) bool {
	return r == ' ' || r > 0 && classOf(r)&(startPunct|endPunct) != 0
}

func in(set string, r rune) bool { return r >= 0 && strings.ContainsRune(set, r) }

// badSequence are the rules about certain characters: typical mojibake of one code page or one script, of a
// character r of class k at i and what follows.
func badSequence(r rune, k class, text []rune, i int) bool {
	at := func(j int) rune {
		if i+j < len(text) {
			return text[i+j]
		}
		return -1
	}
	r1, r2, r3 := at(1), at(2), at(3)
	switch r {
	case 'Œ', 'œ':
		return r1 >= 0x80 || !isASCIILetter(byte(r1))
	case '×':
		return in("²³", r1)
	case 'à':
		return in("²µ¹¼½¾", r1)
	case '√':
		return in("±∂†≠®™´≤≥¥µø", r1)
	case '≈':
		return in("°¢", r1)
	case '‚':
		return r1 == 'Ä' && in("ìîïòôúùû†°¢π", r2) || in("âó", r1) && in("àä°ê", r2)
	case 'в':
		return r1 == 'Ђ'
	case 'β':
		return r1 == '€' && in("™\u00a0Ά\u00ad®°", r2)
	case 'ā':
		return r1 == '€'
	case 'Â', 'Ã', 'Î', 'Ð':
		return badWindows1252(r, r1, i == 0)
	case 'Ø', 'Ù':
		return badArabic(r1) && (r2 == 'Ø' || r2 == 'Ù') && badArabic(r3)
	case 'В', 'Г', 'Р', 'С':
		return badBetween(r1, "°µ") && in("ВГРС", r2) ||
			r == 'Г' && r1 == 'ў' && r2 == 'В' && at(3) == 'Ђ' && badCyrillicTail(at(4), at(5), at(6))
	case 'Β', 'Γ', 'Ξ', 'Ο':
		return badBetween(r1, "°") && in("ΒΓΞΟ", r2)
	}
	// A closing mark, Â, and a mark that Â may stand for.
	return k&endPunct != 0 && r1 == 'Â' && isCopied(r2)
}

// badWindows1252 are sequences of two characters that begin with the lead byte of common letters.
func badWindows1252(r, r1 rune, atStart bool) bool {
	if in("€œŠš¢£Ÿž\u00a0\u00ad®°©·»–—´", r1) || classOf(r1)&(startPunct|endPunct) != 0 {
		return true
	}
	return r == 'Ã' && r1 == '¡' || atStart && isAOrAHat(r) && r1 == ' '
}

func badArabic(r rune) bool {
	return r >= 0 && (in("ŸŠ®°µ»", r) || classOf(r)&(common|currency|bad|numeric|startPunct) != 0)
}

// badBetween says whether r is a mark that can stand between two lead bytes of Greek or Cyrillic letters.
func badBetween(r rune, also string) bool {
	return in(also, r) || r >= 0 && classOf(r)&(c1|bad|startPunct|endPunct|currency) != 0
}

// badCyrillicTail is the end of ГўВЂВ, any character, and a Latin letter or a space.
func badCyrillicTail(fifth, any, last rune) bool {
	letter := last > 0 && last < 0x80 && isASCIILetter(byte(last))
	return fifth == 'В' && any >= 0 && any != '\n' && (letter || last == ' ')
}

package ftfy

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// badRules are character sequences that hardly occur in any text except mojibake. One match is enough. Names in angle brackets
// are classes of members; \w and \s are Unicode's, as in Python.
var badRules = []string{
	`[<c1>]`,
	`[<bad><strange>][<bad>]`,
	`[<bad>][<strange>]`,
	`[<lowerAccented><lowerCommon><box><endPunct><currency><numeric>][<upperAccented>]`,
	`[<box><endPunct><currency><numeric>][<lowerAccented>]`,
	`[<lowerAccented><box><endPunct>][<currency>]`,
	`[<upperAccented><box>][<numeric><law>]`,
	`[<currency><numeric><box>][<startPunct>]`,
	`[<box>][<kaomoji><endPunct>]`,
	`[<accented><currency><numeric><startPunct><endPunct><law>][<box>]`,
	`[<accented><box><currency><endPunct>][<startPunct>][<numeric>]`,
	`[<accented><currency><numeric><box><law>][<endPunct>][<startPunct>]`,
	`[<accented>][<startPunct><endPunct>][\w]`,
	`[<upperAccented>]°`,
	`[a-zA-Z][<lowerCommon><upperCommon>][<bad>]`,
	`[\s][<upperAccented>][<currency>]`,
	`[a-z][<upperAccented>][<startPunct><currency>]`,
	// Ã and Â before a space are "à" and the no-break space, read as Windows-1252. Â may also be part of the next sequence.
	`(?:[a-z][\s]?|^)[ÃÂ] `,
	`[a-z.,?!<endPunct>]Â[ <startPunct><endPunct>]`,
	`[ÂÃÎÐ][€œŠš¢£Ÿž\xa0\xad®°©·»–—´<startPunct><endPunct>]`,
	`Ã¡`,
	`[Œœ][^A-Za-z]`,
	`×[²³]`,
	`à[²µ¹¼½¾]`,
	`√[±∂†≠®™´≤≥¥µø]`,
	`≈[°¢]`,
	`‚Ä[ìîïòôúùû†°¢π]`,
	`‚[âó][àä°ê]`,
	`вЂ`,
	`β€[™\xa0Ά\xad®°]`,
	`ā€`,
	`(?:[ØÙ][ŸŠ®°µ»<common><currency><bad><numeric><startPunct>]){2}`,
	`[ВГРС][°µ<bad><startPunct><endPunct><currency>][ВГРС]`,
	`ГўВЂВ.[A-Za-z ]`,
	`[ΒΓΞΟ][°<bad><startPunct><endPunct><currency>][ΒΓΞΟ]`,
}

// strange are the classes that do not occur beside a bad character, on either side.
var strange = []string{"accented", "box", "startPunct", "endPunct", "currency", "numeric", "law"}

// badness matches a sequence that hardly occurs except in mojibake.
var badness = sync.OnceValue(compileBadness)

func compileBadness() *regexp.Regexp {
	sets := map[string]string{}
	for _, m := range members {
		sets[m.class] = regexp.QuoteMeta(m.chars)
		for ends := range slices.Chunk([]rune(m.ranges), 2) {
			sets[m.class] += string(ends[0]) + "-" + string(ends[1])
		}
	}
	sets["accented"] = sets["lowerAccented"] + sets["upperAccented"]
	for _, class := range strange {
		sets["strange"] += sets[class]
	}
	pairs := []string{`\w`, `\pL\pN_`, `\s`, `\s\v\x1c-\x1f\x{85}\pZ`}
	for class, set := range sets {
		pairs = append(pairs, "<"+class+">", set)
	}
	return regexp.MustCompile(strings.NewReplacer(pairs...).Replace(strings.Join(badRules, "|")))
}

// isBad reports whether text has a sequence that hardly occurs except in mojibake. Each rule contains a member.
func isBad(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return clueOf(r)&clueMember != 0 }) && badness().MatchString(text)
}

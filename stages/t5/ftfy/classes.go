package ftfy

import "slices"

// members lists the characters of each class: single characters, then ranges (first and last).
var members = []struct{ class, chars, ranges string }{
	{"common", "\u00a0\u00ad\u00b4\u00b7\u2013\u2014\u2015\u2019\u2026", ""},
	{"c1", "", "\u0080\u009f"},
	{"bad", "\u00a4\u00a6\u00a8\u00aa\u00ac\u00af\u00b8\u00ba\u0192\u02c6\u02c7\u02d8\u02db\u02dc" +
		"\u2020\u2021\u2030\u2310\u25ca\ufffd", ""},
	{"law", "§¶", ""},
	{"currency", "¢£¥₧€", ""},
	{"startPunct", "\u00a1\u00a9\u00ab\u00bf\u0384\u0385\u2018\u201a\u201c\u201e\u2022\u2039\uf8ff", ""},
	{"endPunct", "®»˝”›™", ""},
	{"numeric", "±²³µ¹¼½¾×÷⁄№∂∆∏∑√∞∩∫≈≠≡≤≥", ""},
	{"kaomoji", "°ÙÚÛÜŌŐŪŲ", "ÒÖòöøü"},
	{"upperAccented", "ØÜÝĀĂĄĆČĎĐĒĖĘĚĞĢĪİĶĹĻĽŁŃŅŇŒŘŚŞŠŢŤŮŰŸŹŻŽҐ", "ÀÑ"},
	{"lowerAccented", "üāăąćčďđēėęěğģīįķĺļľłœŕśşšťźżžґﬁﬂ", "ßñ"},
	{"upperCommon", "ÞΆΈΉΊΌΎΏ", "ΑΫЁЯ"},
	{"lowerCommon", "", "άωаџ"},
	{"box", "│┌┐┘├┤┬┼▀▄█▌▐░▒▓", "═╬"},
}

// clue is a set of roles that a character can have if UTF-8 was read in a code page.
type clue uint8

const (
	clueFirstOf2 clue = 1 << iota
	clueFirstOf3
	clueFirstOf4
	clueContinuation
	// clueContinuationStrict leaves out characters that often occur next to mojibake without being part of it.
	clueContinuationStrict
	// clueMember marks every character that belongs to a class.
	clueMember
)

// characters holds every character with a clue. Small characters are in a table, because almost all texts look them up.
var (
	characters      = buildCharacters()
	smallCharacters = buildSmall()
)

func buildCharacters() map[rune]clue {
	m := map[rune]clue{}
	for _, set := range members {
		for _, r := range set.chars {
			m[r] |= clueMember
		}
		for ends := range slices.Chunk([]rune(set.ranges), 2) {
			for r := ends[0]; r <= ends[1]; r++ {
				m[r] |= clueMember
			}
		}
	}
	for _, page := range latinLike {
		for b, r := range page.chars {
			m[r] |= clueOfByte(byte(b), r)
		}
	}
	// A space may be a damaged no-break space, A0.
	m[' '] |= clueContinuation
	return m
}

func clueOfByte(b byte, r rune) clue {
	switch {
	case b == 0xf0 || b == 0xf3:
		return clueFirstOf4
	case b >= 0xe0 && b <= 0xef:
		return clueFirstOf3
	case b >= 0xc2 && b <= 0xdf:
		return clueFirstOf2
	case b < 0x80 || b > 0xbf:
		return 0
	}
	switch r {
	case '–', '—', '―', '‘', '’', '‚', '“', '”', '„', '•', '…':
		return clueContinuation
	}
	return clueContinuation | clueContinuationStrict
}

func buildSmall() *[0x500]clue {
	var t [0x500]clue
	for r, c := range characters {
		if int(r) < len(t) {
			t[r] = c
		}
	}
	return &t
}

func clueOf(r rune) clue {
	if int(r) < len(smallCharacters) {
		return smallCharacters[r]
	}
	return characters[r]
}

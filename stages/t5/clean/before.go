package clean

import "latentbeam/internal/ftfy"

// handle is @ and a word.
func handle(t text, i int) int {
	if t[i] != '@' || !t.word(i+1) {
		return 0
	}
	return t.skip(i+1, ftfy.IsWord)
}

func straightenQuotes(t text) text {
	for i, r := range t {
		switch r {
		case '`', '´', '«', '»', '“', '”', '¨':
			t[i] = '"'
		case '‘', '’':
			t[i] = '\''
		}
	}
	return t
}

func quotEntity(t text, i int) int {
	end := t.has(i, "&quot")
	if end > 0 && end < len(t) && t[end] == ';' {
		end++
	}
	return end
}

// ipAddress is four groups of one to three digits with dots between. A longer last group is cut.
func ipAddress(t text, i int) int {
	for range 3 {
		end := i
		for end < i+3 && t.is(end, isDigit) {
			end++
		}
		if end == i || !t.is(end, isDot) {
			return 0
		}
		i = end + 1
	}
	end := i
	for end < i+3 && t.is(end, isDigit) {
		end++
	}
	if end == i {
		return 0
	}
	return end
}

// deleteTrailingTime deletes d:dd and the white space after it, at the end of the caption.
func deleteTrailingTime(t text) text {
	end := len(t)
	for end > 0 && ftfy.IsSpace(t[end-1]) {
		end--
	}
	if end == len(t) || end < 4 {
		return t
	}
	if isDigit(t[end-4]) && t[end-3] == ':' && isDigit(t[end-2]) && isDigit(t[end-1]) {
		return t[:end-4]
	}
	return t
}

// shortHashNumber is # and one to three digits that end a word.
func shortHashNumber(t text, i int) int {
	if t[i] != '#' {
		return 0
	}
	end := i + 1
	for end <= i+3 && t.is(end, isDigit) {
		end++
	}
	if end == i+1 || t.word(end) {
		return 0
	}
	return end
}

// longHashNumber is # and five or more digits that end a word.
func longHashNumber(t text, i int) int {
	if t[i] != '#' {
		return 0
	}
	end := t.skip(i+1, isDigit)
	if end < i+6 || t.word(end) {
		return 0
	}
	return end
}

// longNumber is a word of six or more digits.
func longNumber(t text, i int) int {
	if !isDigit(t[i]) || t.word(i-1) {
		return 0
	}
	end := t.skip(i, isDigit)
	if end < i+6 || t.word(end) {
		return 0
	}
	return end
}

var fileTypes = []string{"png", "jpg", "jpeg", "bmp", "webp", "eps", "pdf", "apk", "mp4"}

// deleteFileNames deletes what ends in a file type, from the space before it. In a run without spaces
// the last file type counts, wherever it stands, and something must come before its dot.
func deleteFileNames(t text) text {
	var out text
	kept := 0
	for i := 0; i < len(t); {
		end := t.skip(i, isNoSpace)
		for dot := end - 1; dot > i; dot-- {
			if t[dot] != '.' {
				continue
			}
			if stop := t.hasAny(dot+1, fileTypes); stop > 0 {
				out = append(out, t[kept:i]...)
				kept = stop
				break
			}
		}
		i = end + 1
	}
	if kept == 0 {
		return t
	}
	return append(out, t[kept:]...)
}

// loneDot is a dot with white space on both sides.
func loneDot(t text, i int) int {
	if !ftfy.IsSpace(t[i]) || i > 0 && ftfy.IsSpace(t[i-1]) {
		return 0
	}
	dot := t.skip(i, ftfy.IsSpace)
	if !t.is(dot, isDot) {
		return 0
	}
	if end := t.skip(dot+1, ftfy.IsSpace); end > dot+1 {
		return end
	}
	return 0
}

// splitDashed makes spaces of hyphens and underscores where there are more than three: this-is-my-cute-cat.
func splitDashed(t text) text {
	const most = 3
	count := 0
	for _, r := range t {
		if r == '-' || r == '_' {
			count++
		}
	}
	if count <= most {
		return t
	}
	for i, r := range t {
		if r == '-' || r == '_' {
			t[i] = ' '
		}
	}
	return t
}

package ftfy

import "bytes"

// byteSet is a set of bytes, for patterns over encoded text.
type byteSet [256]bool

func setOf(ranges ...[2]byte) *byteSet {
	var s byteSet
	for _, r := range ranges {
		for c := int(r[0]); c <= int(r[1]); c++ {
			s[c] = true
		}
	}
	return &s
}

func one(c byte) [2]byte { return [2]byte{c, c} }

var (
	spaceByte = setOf(one(' '))
	// afterLead is a continuation byte other than 0x85 and 0xA0, which are spaces themselves.
	afterLead = setOf([2]byte{0x80, 0x84}, [2]byte{0x86, 0x9f}, [2]byte{0xa1, 0xbf})
	follow    = setOf([2]byte{0x80, 0xbf})
	leadOf4   = setOf(one(0xf0))
)

// damagedSpace are sequences that would be UTF-8 if their space were the byte A0, and then stand for
// characters that are common enough to believe it.
var damagedSpace = [][]*byteSet{
	{setOf(one(0xc2), one(0xc3), one(0xc5), one(0xce), one(0xd0), one(0xd9)), spaceByte},
	{setOf([2]byte{0xe2, 0xe3}), spaceByte, afterLead},
	{setOf([2]byte{0xe0, 0xe3}), afterLead, spaceByte},
	{leadOf4, spaceByte, follow, follow},
	{leadOf4, follow, spaceByte, follow},
	{leadOf4, follow, follow, spaceByte},
}

var (
	lost        = one(substitute)
	question    = one('?')
	lostOrAsked = setOf(lost, question)
	lostOrByte  = setOf(lost, [2]byte{0x80, 0xbf})
	anyOfThree  = setOf(lost, question, [2]byte{0x80, 0xbf})
	leadED      = setOf(one(0xed))
	highByte    = setOf([2]byte{0xa0, 0xaf})
	lowByte     = setOf([2]byte{0xb0, 0xbf})
	leadOf3     = setOf([2]byte{0xe0, 0xef})
	anyLeadOf4  = setOf([2]byte{0xf0, 0xf4})
)

// lostSequences are UTF-8 and CESU-8 sequences with bytes that a code page lost; "?" may stand for one
// of them. The order matters: the first that fits is taken.
var lostSequences = [][]*byteSet{
	{setOf([2]byte{0xc2, 0xdf}), setOf(lost)},
	{setOf([2]byte{0xc2, 0xc3}), setOf(question)},
	{leadED, highByte, lostOrAsked, leadED, lowByte, anyOfThree},
	{leadED, highByte, anyOfThree, leadED, lowByte, lostOrAsked},
	{leadOf3, lostOrAsked, lostOrByte},
	{leadOf3, lostOrByte, lostOrAsked},
	{anyLeadOf4, lostOrAsked, lostOrByte, lostOrByte},
	{anyLeadOf4, lostOrByte, lostOrAsked, lostOrByte},
	{anyLeadOf4, lostOrByte, lostOrByte, lostOrAsked},
	{setOf(lost)},
}

// matchAny is the length of the first pattern that b starts with, 0 if none.
func matchAny(patterns [][]*byteSet, b []byte) int {
next:
	for _, p := range patterns {
		if len(b) < len(p) {
			continue
		}
		for i, set := range p {
			if !set[b[i]] {
				continue next
			}
		}
		return len(p)
	}
	return 0
}

func hasDamagedSpace(b []byte) bool {
	for i := range b {
		if b[i] >= 0xc2 && matchAny(damagedSpace, b[i:]) > 0 {
			return true
		}
	}
	return false
}

// restoreSpaces makes the spaces of damaged sequences A0 again. Before that, "à" that stands alone gets
// its A0 and keeps the space after it.
func restoreSpaces(b []byte) []byte {
	b = splitLoneAGrave(b)
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); {
		n := 0
		if b[i] >= 0xc2 {
			n = matchAny(damagedSpace, b[i:])
		}
		if n == 0 {
			out = append(out, b[i])
			i++
			continue
		}
		out = append(out, bytes.ReplaceAll(b[i:i+n], []byte{' '}, []byte{0xa0})...)
		i += n
	}
	return out
}

// splitLoneAGrave turns C3 20 into C3 A0 20, so that "Ã la mode" becomes "à la mode". The words of
// Portuguese that start with à ("às", "àquele", "àquela", "àquilo") stay together, as does a second
// space.
func splitLoneAGrave(b []byte) []byte {
	lone := []byte{0xc3, ' '}
	if !bytes.Contains(b, lone) {
		return b
	}
	var out []byte
	for {
		i := bytes.Index(b, lone)
		if i < 0 {
			return append(out, b...)
		}
		out = append(out, b[:i+1]...)
		b = b[i+2:]
		if !startsWord(b) {
			out = append(out, 0xa0)
		}
		out = append(out, ' ')
	}
}

func startsWord(b []byte) bool {
	for _, w := range []string{" ", "quele", "quela", "quilo", "s "} {
		if bytes.HasPrefix(b, []byte(w)) {
			return true
		}
	}
	return false
}

// replaceLost makes U+FFFD of sequences that lost bytes, and of lost bytes alone.
func replaceLost(b []byte) []byte {
	if bytes.IndexByte(b, substitute) < 0 && bytes.IndexByte(b, '?') < 0 {
		return b
	}
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); {
		n := 0
		if b[i] >= 0xc2 || b[i] == substitute {
			n = matchAny(lostSequences, b[i:])
		}
		if n == 0 {
			out = append(out, b[i])
			i++
			continue
		}
		out = append(out, "\uFFFD"...)
		i += n
	}
	return out
}

package report

import (
	"fmt"
	"hash/fnv"
	"iter"
	ones "math/bits"
	"strconv"
	"strings"

	"latentbeam/schemas"
)

// hashWords is the number of 64-bit words in a clipHash.
const hashWords = 3

// clipHash is the perceptual hash of a clip: a word for each of its first, middle and last frame.
type clipHash [hashWords]uint64

// parseHash parses a clipHash: words in hex, separated by dashes.
func parseHash(text string) (l clipHash, ok bool) {
	words := strings.Split(text, "-")
	if len(words) != hashWords {
		return l, false
	}
	for i, word := range words {
		var err error
		if l[i], err = strconv.ParseUint(word, 16, 64); err != nil {
			return l, false
		}
	}
	return l, true
}

// distance returns the largest number of bits in which a word of l differs from the same word of m.
func (l clipHash) distance(m clipHash) (most int) {
	for i := range l {
		most = max(most, ones.OnesCount64(l[i]^m[i]))
	}
	return most
}

// Hashes are indexed by the parts of their middle word. If two words differ in at most d bits, at least one of their four parts
// differs in at most d/4 bits.
const (
	hashParts = 4
	partBits  = 64 / hashParts
)

// lookalikes is an index of retained rows by their hashes. It uses about 100 bytes of memory per row.
type lookalikes struct {
	distance int
	flips    []uint16 // bit patterns in which a part may differ
	retained []retainedRow
	heads    [hashParts][1 << partBits]int32 // last row with the part, counted from 1; 0: none
}

// retainedRow is a retained row.
type retainedRow struct {
	clipHash
	clip uint64 // hash of the clip; equal for the mirrored clip and for other captions of the clip
	id   string
	next [hashParts]int32 // previous row with the same part, counted from 1; 0: none
}

// newLookalikes returns an empty index. Two rows look alike if their hashes differ in at most distance bits of each word.
func newLookalikes(distance int) *lookalikes {
	l := &lookalikes{distance: distance}
	for v := range 1 << partBits {
		if ones.OnesCount(uint(v)) <= distance/hashParts {
			l.flips = append(l.flips, uint16(v))
		}
	}
	return l
}

// Judge retains a row, or returns the reason to drop it, which names the retained row that it looks like. A row without a hash is
// never dropped.
func (l *lookalikes) Judge(row *schemas.PromptRow, reading string) string {
	at, ok := parseHash(reading)
	if !ok {
		return ""
	}
	clip := clipOf(row)
	first := -1
	for i := range l.near(at) {
		if l.retained[i].clip == clip {
			return "" // another row of the same clip is retained
		}
		if first < 0 || i < first {
			first = i
		}
	}
	if first >= 0 {
		return fmt.Sprintf("looks like %s (%d of 64 bits differ)", l.retained[first].id, at.distance(l.retained[first].clipHash))
	}
	l.add(retainedRow{clipHash: at, clip: clip, id: row.ID})
	return ""
}

// near yields the numbers of retained rows within the distance, some of them more than once.
func (l *lookalikes) near(at clipHash) iter.Seq[int] {
	return func(yield func(int) bool) {
		for p := range hashParts {
			for _, flip := range l.flips {
				for i := l.heads[p][at.part(p)^flip]; i > 0; i = l.retained[i-1].next[p] {
					if l.retained[i-1].distance(at) <= l.distance && !yield(int(i-1)) {
						return
					}
				}
			}
		}
	}
}

// add adds a retained row to the index.
func (l *lookalikes) add(k retainedRow) {
	for p := range hashParts {
		head := &l.heads[p][k.part(p)]
		k.next[p], *head = *head, int32(len(l.retained)+1)
	}
	l.retained = append(l.retained, k)
}

// part returns part p of the middle word.
func (l clipHash) part(p int) uint16 { return uint16(l[hashWords/2] >> (p * partBits)) }

// clipOf returns a hash of the clip of a row: the file and the part of it, mirrored or not.
func clipOf(row *schemas.PromptRow) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s\n%dx%dx%d %v", row.Media, row.Width, row.Height, row.NumFrames, row.FPS)
	if row.Cut != nil {
		cut := *row.Cut
		cut.Flipped = false
		fmt.Fprintf(h, " %+v", cut)
	}
	return h.Sum64()
}

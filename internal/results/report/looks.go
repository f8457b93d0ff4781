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

// lookWords is how many words of 64 bits a look has; look is that many.
const lookWords = 3

type look [lookWords]uint64

// parseLook reads words in hex with dashes between them.
func parseLook(text string) (l look, ok bool) {
	words := strings.Split(text, "-")
	if len(words) != lookWords {
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

// apart is in how many bits the words differ that differ most.
func (l look) apart(m look) (most int) {
	for i := range l {
		most = max(most, ones.OnesCount64(l[i]^m[i]))
	}
	return most
}

// A word is found by its parts: where two words differ in at most distance bits, one of the parts differs in at most a
// quarter of them.
const (
	lookParts = 4
	partBits  = 64 / lookParts
)

// lookalikes is the rows that are kept. It takes about 100 bytes a row.
type lookalikes struct {
	distance int
	flips    []uint16 // what may differ in a part
	kept     []keptLook
	heads    [lookParts][1 << partBits]int32 // the last row with this part, counted from 1
}

// keptLook is a row that is kept.
type keptLook struct {
	look
	clip uint64 // names the clip; mirrored and not, and with other captions, it is the same
	id   string
	next [lookParts]int32 // the row before with the same part
}

// newLookalikes has kept nothing yet. Rows look alike whose looks differ in at most distance bits of each word.
func newLookalikes(distance int) *lookalikes {
	l := &lookalikes{distance: distance}
	for v := range 1 << partBits {
		if ones.OnesCount(uint(v)) <= distance/lookParts {
			l.flips = append(l.flips, uint16(v))
		}
	}
	return l
}

// Judge keeps a row, or says which kept one it looks like. A row without such a reading is kept and compared with none.
func (l *lookalikes) Judge(row *schemas.PromptRow, reading string) string {
	at, ok := parseLook(reading)
	if !ok {
		return ""
	}
	clip := clipOf(row)
	first := -1
	for i := range l.near(at) {
		if l.kept[i].clip == clip {
			return "" // rows of one clip belong together, and it is kept
		}
		if first < 0 || i < first {
			first = i
		}
	}
	if first >= 0 {
		return fmt.Sprintf("looks like %s (%d of 64 bits differ)", l.kept[first].id, at.apart(l.kept[first].look))
	}
	l.keep(keptLook{look: at, clip: clip, id: row.ID})
	return ""
}

// near yields the numbers of kept rows within the distance, some more than once.
func (l *lookalikes) near(at look) iter.Seq[int] {
	return func(yield func(int) bool) {
		for p := range lookParts {
			for _, flip := range l.flips {
				for i := l.heads[p][at.part(p)^flip]; i > 0; i = l.kept[i-1].next[p] {
					if l.kept[i-1].apart(at) <= l.distance && !yield(int(i-1)) {
						return
					}
				}
			}
		}
	}
}

func (l *lookalikes) keep(k keptLook) {
	for p := range lookParts {
		head := &l.heads[p][k.part(p)]
		k.next[p], *head = *head, int32(len(l.kept)+1)
	}
	l.kept = append(l.kept, k)
}

// part is part p of the word in the middle.
func (l look) part(p int) uint16 { return uint16(l[lookWords/2] >> (p * partBits)) }

// clipOf names the part of a file that a row shows.
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

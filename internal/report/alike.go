package report

import (
	"context"
	"fmt"
	"hash/fnv"
	"iter"
	ones "math/bits"
	"strconv"
	"strings"

	"latentbeam/internal/ledger"
	"latentbeam/schemas"
)

// judged yields every row with its outcome. A row that looks like an earlier one which is kept is left out: it comes as
// failed, with the reason in twin. What is kept follows from the input's order and the readings alone, and from no later
// row. So shards, batches and the order of computing decide nothing, and each row left out has a kept one that it looks
// like, while no two kept ones look alike.
func (j *Job) judged(ctx context.Context) iter.Seq2[outcome, error] {
	if j.Alike == nil {
		return j.walk(ctx)
	}
	return func(yield func(outcome, error) bool) {
		kept := newLooks(j.Alike.Distance)
		for o, err := range j.walk(ctx) {
			if err == nil && o.status == ledger.Done {
				if err = o.parse(); err == nil {
					o.twin = kept.judge(&o, o.result.Readings[j.Alike.Reading])
				}
			}
			if o.twin != "" {
				o.status = ledger.Failed
			}
			if !yield(o, err) || err != nil {
				return
			}
		}
	}
}

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

// looks are the rows that are kept. It takes about 100 bytes a row.
type looks struct {
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

func newLooks(distance int) *looks {
	l := &looks{distance: distance}
	for v := range 1 << partBits {
		if ones.OnesCount(uint(v)) <= distance/lookParts {
			l.flips = append(l.flips, uint16(v))
		}
	}
	return l
}

// judge keeps a row, or says which kept one it looks like. A row without such a reading is kept and compared with none.
func (l *looks) judge(o *outcome, reading string) string {
	at, ok := parseLook(reading)
	if !ok {
		return ""
	}
	clip := clipOf(&o.Row)
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
	l.keep(keptLook{look: at, clip: clip, id: o.Row.ID})
	return ""
}

// near yields the numbers of kept rows within the distance, some more than once.
func (l *looks) near(at look) iter.Seq[int] {
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

func (l *looks) keep(k keptLook) {
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

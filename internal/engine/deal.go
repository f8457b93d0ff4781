package engine

import (
	"slices"

	"latentbeam/schemas"
	"latentbeam/stages"
)

// maxDealt bounds the rows that are held to be dealt. They are without tensors.
const maxDealt = 8192

// dealer orders rows in front of a shuffle so that rows of one shape meet behind it. Flink gives the rows of a reader to
// the parts in turn: rows that are a round apart meet. An engine that gives them out by chance does so still.
type dealer struct {
	engine *Engine
	parts  int
	emit   func(*stages.Element)
	rows   []*stages.Element
	shapes map[schemas.Bucket]int // in order of their first row
	batch  int                    // rows of the largest batch
}

func (e *Engine) dealer(emit func(*stages.Element)) *dealer {
	return &dealer{engine: e, parts: max(1, e.Spread.Parts), emit: emit, shapes: map[schemas.Bucket]int{}, batch: 1}
}

// put takes a row, and deals when it has many.
func (d *dealer) put(e *stages.Element) {
	shape := schemas.BucketOf(e.Row)
	if _, known := d.shapes[shape]; !known {
		d.shapes[shape] = len(d.shapes)
		if n, err := d.engine.BatchSize(&e.Row); err == nil {
			d.batch = max(d.batch, n)
		}
	}
	if d.rows = append(d.rows, e); len(d.rows) >= maxDealt {
		d.deal()
	}
}

// deal emits the rows that it has: each part gets a batch of one shape, then the next.
func (d *dealer) deal() {
	slices.SortStableFunc(d.rows, func(a, b *stages.Element) int {
		return d.shapes[schemas.BucketOf(a.Row)] - d.shapes[schemas.BucketOf(b.Row)]
	})
	for hand := range slices.Chunk(d.rows, d.parts*d.batch) {
		each, more := len(hand)/d.parts, len(hand)%d.parts // the first ones get one more
		for round := range (len(hand) + d.parts - 1) / d.parts {
			for part := range min(d.parts, len(hand)-round*d.parts) {
				d.emit(hand[part*each+min(part, more)+round])
			}
		}
	}
	clear(d.rows)
	d.rows = d.rows[:0]
}

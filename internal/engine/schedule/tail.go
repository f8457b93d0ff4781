package schedule

import (
	"sync"

	"latentbeam/schemas"
)

// Expected is how many rows of a shape a job will probably compute.
type Expected struct {
	Row  schemas.PromptRow // one of them
	Rows int
}

// tail knows what is still to come to a stage: before the table was read to its end what was expected, then
// exactly.
type tail struct {
	mu    sync.Mutex
	asked bool // something is expected
	ended bool
	kinds map[schemas.Bucket]*coming
	order []schemas.Bucket // of first appearance
}

// coming counts the rows of one bucket.
type coming struct {
	row      schemas.PromptRow // one of them
	expected int               // rows
	rows     int               // that came to the bucket
	passed   count             // that it has let go
	arrived  map[int]count     // by stage
}

type count struct{ batches, rows int }

// ahead is what is still to come to a stage of one bucket.
type ahead struct {
	bucket schemas.Bucket
	row    *schemas.PromptRow
	count
}

// reset begins anew, with what is expected.
func (t *tail) reset(expected []Expected) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended, t.kinds, t.order, t.asked = false, nil, nil, len(expected) > 0
	for _, e := range expected {
		t.of(schemas.BucketOf(e.Row), &e.Row).expected = e.Rows
	}
}

func (t *tail) of(b schemas.Bucket, row *schemas.PromptRow) *coming {
	c := t.kinds[b]
	if c == nil {
		c = &coming{row: *row, arrived: map[int]count{}}
		if t.kinds == nil {
			t.kinds = map[schemas.Bucket]*coming{}
		}
		t.kinds[b] = c
		t.order = append(t.order, b)
	}
	return c
}

// add notes a row that has come to its bucket.
func (t *tail) add(b schemas.Bucket, row *schemas.PromptRow) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.of(b, row).rows++
	t.ended = false
}

// pass notes a batch that a bucket lets go.
func (t *tail) pass(b schemas.Bucket, row *schemas.PromptRow, rows int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.of(b, row)
	c.passed.batches++
	c.passed.rows += rows
}

// close notes that no row comes any more.
func (t *tail) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
}

// arrive notes that a batch has come to a stage.
func (t *tail) arrive(stage int, b schemas.Bucket, row *schemas.PromptRow, rows int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.of(b, row)
	n := c.arrived[stage]
	c.arrived[stage] = count{n.batches + 1, n.rows + rows}
}

// ahead lists what has yet to come to a stage; known is false where that cannot be said.
func (t *tail) ahead(stage int) (list []ahead, known bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ended && !t.asked {
		return nil, false
	}
	for _, b := range t.order {
		c := t.kinds[b]
		here := c.arrived[stage]
		n := count{c.passed.batches - here.batches, c.rows - here.rows}
		if c.rows > c.passed.rows { // the bucket holds a last batch
			n.batches++
		}
		if more := c.expected - c.rows; !t.ended && more > 0 {
			n.batches, n.rows = n.batches+more, n.rows+more // a batch has one row at least
		}
		if n.rows > 0 {
			list = append(list, ahead{b, &c.row, n})
		}
	}
	return list, true
}

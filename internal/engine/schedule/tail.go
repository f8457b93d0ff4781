package schedule

import (
	"sync"

	"latentbeam/schemas"
)

// Expected is the number of rows of one shape that a job will probably compute.
type Expected struct {
	Row  schemas.PromptRow // one of the rows
	Rows int
}

// tail counts the rows that have not reached a stage: an estimate until the table is read to its end, then
// exact.
type tail struct {
	mu    sync.Mutex
	asked bool // an estimate was given
	ended bool
	kinds map[schemas.Bucket]*coming
	order []schemas.Bucket // of first appearance
}

// coming counts the rows of one bucket.
type coming struct {
	row      schemas.PromptRow // one of the rows
	expected int               // estimated number of rows
	rows     int               // rows added to the bucket
	passed   count             // emitted by the bucket
	arrived  map[int]count     // arrived at each stage
}

type count struct{ batches, rows int }

// ahead counts the rows of one bucket that have not reached a stage.
type ahead struct {
	bucket schemas.Bucket
	row    *schemas.PromptRow
	count
}

// reset clears the counts and sets the estimate.
func (t *tail) reset(expected []Expected) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended, t.kinds, t.order, t.asked = false, nil, nil, len(expected) > 0
	for _, e := range expected {
		t.kind(schemas.BucketOf(e.Row), &e.Row).expected = e.Rows
	}
}

// kind returns the counts of a bucket, and adds them if they are missing.
func (t *tail) kind(b schemas.Bucket, row *schemas.PromptRow) *coming {
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

// add records a row that was added to its bucket.
func (t *tail) add(b schemas.Bucket, row *schemas.PromptRow) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kind(b, row).rows++
	t.ended = false
}

// dispatch records a batch that a bucket has emitted.
func (t *tail) dispatch(b schemas.Bucket, row *schemas.PromptRow, rows int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.kind(b, row)
	c.passed.batches++
	c.passed.rows += rows
}

// close records that no more rows will come.
func (t *tail) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
}

// arrive records that a batch has reached a stage.
func (t *tail) arrive(stage int, b schemas.Bucket, row *schemas.PromptRow, rows int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.kind(b, row)
	n := c.arrived[stage]
	c.arrived[stage] = count{n.batches + 1, n.rows + rows}
}

// ahead lists the rows that have not reached a stage, by bucket; known is false if their number is unknown.
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

package report

import (
	"errors"
	"iter"
)

// rowReader reads rows, all or only the first ones. It must return at an error.
type rowReader func(rows iter.Seq2[outcome, error]) error

// errUnread is the error that a reader gets if fanOut stops before the last row.
var errUnread = errors.New("the rows of the report were not read to their end")

// fanOut passes each row to all readers in turn before it reads the next row. So the input is read once for
// all readers. The first error ends all readers. The others get the error in place of a row, so that they do not complete
// what they write.
func fanOut(rows iter.Seq2[outcome, error], readers ...rowReader) error {
	var (
		row     outcome
		failed  error
		more    = true
		waiting []func() (struct{}, bool) // each runs a reader until it needs the next row
	)
	for _, read := range readers {
		next, stop := iter.Pull(func(wait func(struct{}) bool) {
			err := read(func(yield func(outcome, error) bool) {
				for {
					switch resumed := wait(struct{}{}); {
					case !resumed:
						yield(outcome{}, errUnread)
						return
					case failed != nil:
						yield(outcome{}, failed)
						return
					case !more || !yield(row, nil):
						return
					}
				}
			})
			if failed == nil {
				failed = err
			}
		})
		defer stop()
		waiting = append(waiting, next)
	}
	turn := func() {
		left := waiting[:0]
		for _, next := range waiting {
			if _, waits := next(); waits {
				left = append(left, next)
			}
		}
		waiting = left
	}
	turn() // run every reader until it needs the first row
	for o, err := range rows {
		if failed == nil {
			failed = err
		}
		if failed != nil || len(waiting) == 0 {
			break
		}
		row = o
		turn()
	}
	more = false
	turn()
	return failed
}

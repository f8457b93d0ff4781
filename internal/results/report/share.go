package report

import (
	"errors"
	"iter"
)

// rowReader takes rows up to their end or as many as it wants. It ends at an error.
type rowReader func(rows iter.Seq2[outcome, error]) error

// errUnread ends the rows of a reader when they are cut off.
var errUnread = errors.New("the rows of the report were not read to their end")

// share hands each row to all readers, one after the other, before it reads the next: so the input is read once for
// all of them. The first error ends all, and the others get it in place of a row: what they write is not complete.
func share(rows iter.Seq2[outcome, error], readers ...rowReader) error {
	var (
		row    outcome
		failed error
		more   = true
		asking []func() (struct{}, bool) // runs a reader until it asks for a row
	)
	for _, read := range readers {
		next, stop := iter.Pull(func(ask func(struct{}) bool) {
			err := read(func(yield func(outcome, error) bool) {
				for {
					switch asked := ask(struct{}{}); {
					case !asked:
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
		asking = append(asking, next)
	}
	turn := func() {
		left := asking[:0]
		for _, next := range asking {
			if _, asks := next(); asks {
				left = append(left, next)
			}
		}
		asking = left
	}
	turn() // to the first row
	for o, err := range rows {
		if failed == nil {
			failed = err
		}
		if failed != nil || len(asking) == 0 {
			break
		}
		row = o
		turn()
	}
	more = false
	turn()
	return failed
}

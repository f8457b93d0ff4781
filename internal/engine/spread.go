package engine

import (
	"context"
	"errors"
	"fmt"

	"latentbeam/internal/storage/ledger"
	"latentbeam/internal/watch/runfiles"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// Spread is what an engine needs where the bundles of a job are spread over processes: the one that submits the job has
// read and keyed the rows and put them into the output, their places cross a shuffle, and every process publishes.
type Spread struct {
	// Since is the generation of the ledger with which the job began: such records and later ones are of this job.
	Since uint32
	// Blocks says where the rows lie that are to be computed, and Rows reads some of them.
	Blocks func(context.Context) ([]runfiles.Block, error)
	Rows   func(context.Context, runfiles.Block) (*stages.Batch, error)
	// Tensors brings the tensors of an element that has crossed the shuffle; nil: there are none.
	Tensors func(*stages.Element) error
	// Begin is called when a bundle behind the shuffle begins. It returns the rows with which processes have died. End is
	// called when the bundle has ended well.
	Begin func(context.Context) (map[schemas.Key]Suspect, error)
	End   func()
	// Mark notes rows before they are begun; where they are alone, nothing else is at work.
	Mark func(ctx context.Context, keys []schemas.Key, alone bool) error
	// Done notes that rows have come to an end.
	Done func(keys []schemas.Key)
	// Report tells the submitter of an error that ends a bundle, and returns the error for the runner.
	Report func(error) error

	atWork atWork
}

// Suspect is a row with which processes have died.
type Suspect struct {
	Among  int  // rows that were at work in such a death, in the one with the fewest
	Guilty bool // no other row can be the cause
}

// Rejoin looks at an element that has crossed the shuffle: it reports false where the job has settled it meanwhile, for
// bundles are tried again, and brings its tensors. Files that it is made of must be here what they were where it was keyed.
func (e *Engine) Rejoin(el *stages.Element) (bool, error) {
	status, err := e.Ledger.LookupSince(ledger.Key(el.Key), e.Spread.Since)
	if err != nil || status != ledger.Absent {
		return false, err
	}
	if err := e.sameFiles(el); err != nil {
		return false, err
	}
	if e.Spread.Tensors != nil {
		if err := e.Spread.Tensors(el); err != nil {
			return false, err
		}
	}
	return true, nil
}

// sameFiles says where the files that a row names are others than those of its key.
func (e *Engine) sameFiles(el *stages.Element) error {
	row := &el.Row
	if row.Media == "" && row.Reference == "" && row.Noise == "" {
		return nil
	}
	key, err := e.Rules.Key(el) // in the form under which the output has it
	if err != nil && fault.ClassOf(err) != fault.ClassRow {
		return err
	}
	if err == nil && key != el.Key {
		err = errors.New("they have another content")
	}
	if err != nil {
		return fault.Usage(fmt.Errorf("the files of row %s are others here than where the job was submitted: give every host the same "+
			"files (%w)", el.Row.ID, err))
	}
	return nil
}

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

// Spread holds what an engine needs when the bundles of a job run in several processes. The submitting process reads and
// keys the rows and writes them into the output as blocks. Only the locations of blocks cross the shuffle. Every process publishes.
type Spread struct {
	// Since is the ledger's generation when the job started. Records of this generation and later ones belong to this job.
	Since uint32
	// Blocks lists the blocks of rows to compute, and Rows reads one block.
	Blocks func(context.Context) ([]runfiles.Block, error)
	Rows   func(context.Context, runfiles.Block) (*stages.Batch, error)
	// Tensors loads the tensors of an element that has crossed the shuffle; nil: the elements have no tensors.
	Tensors func(*stages.Element) error
	// StartBundle is called when a bundle after the shuffle starts. It returns the rows that were running when a process died.
	// FinishBundle is called when the bundle has succeeded.
	StartBundle  func(context.Context) (map[schemas.Key]Suspect, error)
	FinishBundle func()
	// Mark records rows before they start; alone says that nothing else is running.
	Mark func(ctx context.Context, keys []schemas.Key, alone bool) error
	// Done records that rows are settled.
	Done func(keys []schemas.Key)
	// Report tells the submitter of an error that ends a bundle, and returns the error for the runner.
	Report func(error) error

	inFlight inFlight
}

// Suspect is a row that was running when a process died.
type Suspect struct {
	Among  int  // smallest number of rows that were running together at such a death
	Guilty bool // no other row can be the cause
}

// Rejoin prepares an element that has crossed the shuffle, and loads its tensors. It reports false if the job has settled the element
// meanwhile, which happens because bundles are retried. The element's files must have the same content here as on the host that
// computed its key.
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

// sameFiles returns an error if the files that a row names differ from the files that its key was computed from.
func (e *Engine) sameFiles(el *stages.Element) error {
	row := &el.Row
	if row.Media == "" && row.Reference == "" && row.Noise == "" {
		return nil
	}
	key, err := e.Rules.Key(el) // in the key form that the output uses for this row
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

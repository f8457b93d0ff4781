package engine

import (
	"context"
	"encoding/binary"
	"fmt"

	"latentbeam/internal/ledger"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// Spread is what an engine needs where the bundles of a job are spread over processes: one of them reads and keys the
// input, rows cross a shuffle, and every process publishes into the same output.
type Spread struct {
	// Since is the generation of the ledger with which the job began: such records and later ones are of this job.
	Since uint32
	// Parts is how many bundles there are behind the shuffle; 0: nobody knows.
	Parts int
	// Input is what the process that submitted the job found in the input.
	Input Census
	// Resolve makes the paths in a row independent of the current directory.
	Resolve func(*schemas.PromptRow)
	// Reads is called before the input is read.
	Reads func(context.Context) error
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

// Census is a digest of an input by which two processes compare what they read. The order of rows does not matter.
type Census struct {
	Rows int64     `json:"rows"`
	Bad  int64     `json:"bad"` // of them, without a key
	Sum  [4]uint64 `json:"sum"` // of the keys, by parts
}

// Add takes in a row that Rules.Apply has seen. The key of a bad row depends on paths, so it does not count.
func (c *Census) Add(e *stages.Element) {
	c.Rows++
	if e.Failed != nil {
		c.Bad++
		return
	}
	for i := range c.Sum {
		c.Sum[i] += binary.BigEndian.Uint64(e.Key[8*i:])
	}
}

// differs says how the census of this process differs from that of the submitter.
func (c Census) differs(submitted Census) error {
	switch {
	case c == submitted:
		return nil
	case c.Rows != submitted.Rows || c.Bad != submitted.Bad:
		return fault.Usage(fmt.Errorf("the input has %d rows here, %d of them bad; where the job was submitted it has %d and %d: "+
			"give every host the same files", c.Rows, c.Bad, submitted.Rows, submitted.Bad))
	}
	return fault.Usage(fmt.Errorf("the %d rows of the input are others here than where the job was submitted: give every host "+
		"the same files, those that rows name included", c.Rows))
}

// ReadKeyed is Read and Admit in one, for a job that is spread: rows that are still to be computed come out, without
// tensors, and equal ones once. The input must be the one that the job was submitted with.
func (e *Engine) ReadKeyed(ctx context.Context, emit func(*stages.Element)) error {
	if err := e.Spread.Reads(ctx); err != nil {
		return err
	}
	seen := map[[16]byte]struct{}{} // of this bundle: one that is tried again begins anew
	var census Census
	deal := e.dealer(emit)
	for el, err := range e.Source.Rows(ctx, false) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		if e.Stopping() {
			return nil
		}
		e.Rules.Apply(el)
		if !e.Rules.Mine(el) {
			continue
		}
		census.Add(el)
		e.Progress.Seen.Add(1)
		if el.Failed.IsDropped() {
			e.Progress.Dropped.Add(1)
			continue
		}
		if el.Failed != nil {
			e.Progress.Failed.Add(1)
			continue
		}
		part := [16]byte(el.Key[:16])
		if _, twice := seen[part]; twice {
			e.Progress.Shared.Add(1)
			continue
		}
		seen[part] = struct{}{}
		_, status, err := e.Ledger.Lookup(ledger.Key(el.Key))
		if err != nil {
			return err
		}
		if status != ledger.Absent {
			e.Progress.Skipped.Add(1)
			continue
		}
		el.Text, el.Latents, el.RawLatents = nil, nil, nil
		e.Spread.Resolve(&el.Row)
		deal.put(el)
	}
	deal.deal()
	return census.differs(e.Spread.Input)
}

// Rejoin looks at an element that has crossed the shuffle: it reports false where the job has settled it meanwhile, for
// bundles are tried again, and brings its tensors.
func (e *Engine) Rejoin(el *stages.Element) (bool, error) {
	status, err := e.Ledger.LookupSince(ledger.Key(el.Key), e.Spread.Since)
	if err != nil || status != ledger.Absent {
		return false, err
	}
	if e.Spread.Tensors != nil {
		if err := e.Spread.Tensors(el); err != nil {
			return false, err
		}
	}
	return true, nil
}

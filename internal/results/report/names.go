package report

import (
	"fmt"
	"iter"

	"latentbeam/internal/storage/ledger"

	"latentbeam/schemas/fault"
)

// name gives every video its name. A report of all rows also removes what is no name of a row any more.
func (j *Job) name(rows iter.Seq2[outcome, error]) error {
	folder, err := OpenNamedFolder(j.Output.Store.URL())
	if err != nil {
		return err
	}
	defer folder.Close()
	for o, err := range only(ledger.Done, rows) {
		if err != nil {
			return err
		}
		if o.result.Video == nil {
			continue
		}
		if err := folder.Give(o.result.Video.Path, NameOf(j.Names, o.Element)); err != nil {
			return fault.TryAgain(fmt.Errorf("name the video of %s: %w", o.Given.Source, err))
		}
	}
	if j.Part != "" {
		return nil
	}
	return folder.RemoveOthers()
}

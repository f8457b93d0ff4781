package planning

import (
	"fmt"

	"latentbeam/schemas/fault"
)

// Consent holds the options that allow work which a run does not do by default.
type Consent struct {
	ScoreOnly  bool // only computes measures of finished rows
	Repair     bool // only repairs rows of earlier runs
	NewMeaning bool // allows computing rows again that were done with an earlier meaning
	NewClass   bool // allows computing rows again that were done in another numeric class

	Job    string // file of the job
	Class  string // numeric class of the run
	Before string // numeric class of the rows in the output; "": no rows, or unknown
	Output string // address of the output
	Filled bool   // the output has rows
}

// Allows returns an error if the run would do work that its options do not allow.
func (c Consent) Allows(p Plan) error {
	if c.ScoreOnly && p.New > 0 {
		return fault.Usage(fmt.Errorf("%d of %d rows of the job are not done, and only finished videos can be scored: run the job first (`latentbeam run %s`), "+
			"or give --output, which scores the videos that are there", p.New, p.Rows, c.Job))
	}
	if c.Repair && p.undone > 0 {
		return fault.Usage(fmt.Errorf("a repair computes only results of earlier runs again, and %d of the %d rows of the job have never been done "+
			"under the keys that they have now: the job, or a file that it depends on, has changed, or the job was not run to its end. "+
			"Nothing was computed. `latentbeam explain %s %s` says what has changed; undo that, and repair again. Or run the job "+
			"(`latentbeam run %s`), which computes these rows and mends what it still needs", p.undone, p.Rows, c.Output, p.firstUndone,
			c.Job))
	}
	if p.changed.rows > 0 && !c.NewMeaning {
		return fault.Usage(fmt.Errorf("%v; or give --new-meaning, which computes them again", p.changed))
	}
	if why := c.otherClass(p); why != "" {
		return fault.Usage(fmt.Errorf("%s; run on a host of class %s (resources.class), write into another output, or give --new-class", why,
			c.Before))
	}
	return nil
}

// otherClass returns a text that says that the rows of the output have another class than the run; "": they do not.
func (c Consent) otherClass(p Plan) string {
	if p.New == 0 || c.Before == "" || c.Before == c.Class || c.NewClass || !c.Filled {
		return ""
	}
	return fmt.Sprintf("class changed: the rows of this output are of class %s, this run computes in %s, and %d rows would "+
		"be new", c.Before, c.Class, p.New)
}

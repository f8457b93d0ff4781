package forecast

import (
	"fmt"

	"latentbeam/internal/watch/progress"
	"latentbeam/schemas"
	"latentbeam/testdata/tiny"
)

// outside counts the new rows on which the built-in model was not trained. The model computes them nevertheless.
type outside struct{ sizes, prompts int64 }

// see adds a new row.
func (o *outside) see(row *schemas.PromptRow) {
	if row.Width != tiny.Side || row.Height != tiny.Side || row.NumFrames != tiny.Frames {
		o.sizes++
	}
	if !tiny.Knows(row.Prompt) {
		o.prompts++
	}
}

// warning returns a warning about these rows; "": there are none.
func (o *outside) warning() string {
	switch {
	case o.sizes > 0 && o.prompts > 0:
		return fmt.Sprintf("%s; %s of another size or length and %d with another text: expect noise", tiny.World,
			progress.Rows(o.sizes), o.prompts)
	case o.sizes > 0:
		return fmt.Sprintf("%s; %s of another size or length: expect noise", tiny.World, progress.Rows(o.sizes))
	case o.prompts > 0:
		return fmt.Sprintf("%s; %s with another text: expect one of these shapes at best", tiny.World, progress.Rows(o.prompts))
	}
	return ""
}

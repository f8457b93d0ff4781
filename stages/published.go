package stages

import "latentbeam/schemas"

// Published is what a Stage also is that knows the parameters its model was published with. They hold where
// neither the row nor the job nor the model's index says otherwise.
type Published interface {
	Published() schemas.PromptRow
}

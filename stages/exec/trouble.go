package exec

import (
	"latentbeam/schemas/fault"
)

// Kinds of trouble with a program. A failure's message starts with the kind.
const (
	troubleStart    = "start"    // it did not say hello
	troubleCrash    = "crash"    // it exited, or was killed
	troubleMemory   = "memory"   // the system killed it because it needed too much memory
	troubleHang     = "hang"     // it sent nothing for too long
	troubleTimeout  = "timeout"  // a batch took too long
	troubleProtocol = "protocol" // it violated the protocol
	troubleAnswer   = "answer"   // its result for a row cannot be used
)

// trouble describes what went wrong with a program. The batch is retried with another program.
type trouble struct{ kind, text string }

func (t *trouble) Error() string { return t.kind + ": " + t.text }

// retried returns the trouble as a retry error, which the engine tries again with smaller batches.
func retried(t *trouble) error {
	if t == nil {
		return nil
	}
	return fault.Retry(t)
}

package exec

import (
	"latentbeam/schemas/fault"
)

// Kinds of trouble with a program. Each begins the message of a failure.
const (
	troubleStart    = "start"    // it did not come to its hello
	troubleCrash    = "crash"    // it ended, or was killed
	troubleMemory   = "memory"   // the system killed it for want of memory
	troubleHang     = "hang"     // it sent nothing for too long
	troubleTimeout  = "timeout"  // a batch took too long
	troubleProtocol = "protocol" // it broke the rules of the protocol
	troubleAnswer   = "answer"   // what it made of a row cannot be used
)

// trouble is what went wrong with a program. The batch is tried again with another one.
type trouble struct{ kind, text string }

func (t *trouble) Error() string { return t.kind + ": " + t.text }

// retried is the trouble as an error of the world, which the engine tries again and narrows down.
func retried(t *trouble) error {
	if t == nil {
		return nil
	}
	return fault.Retry(t)
}

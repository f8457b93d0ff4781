package kernels

import "context"

// Linker is a backend whose device can exchange with devices of other processes by itself, without host memory
// between them: GPUs that have NCCL. Linkers are equal if they are one backend, behind whatever wrappers.
type Linker interface {
	// LinkKind names what carries the exchanges, such as "NCCL 2.27.3"; ranks link where all have the same. The
	// error says why there is none.
	LinkKind() (string, error)
	// NewLink returns what the ranks of one group find each other by. One of them asks and tells the others.
	NewLink() (id []byte, err error)
	// Link is entered by every rank of a group, from 0 to size-1, with the same id. It returns when all have
	// come, or with an error, at the latest when ctx ends.
	Link(ctx context.Context, id []byte, rank, size int) (Link, error)
}

// Link is one rank's end of what joins devices of several processes. It serves that rank's goroutine.
type Link interface {
	// Exchange sends and receives parts, and is entered by all ranks that it names. It returns when what comes is
	// in place and what goes may be overwritten. The end of ctx is an error; after any, the link is no more.
	Exchange(ctx context.Context, send, recv []Part) error
	// Close gives the link up at once, whatever the others do.
	Close()
}

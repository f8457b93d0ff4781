package kernels

import "context"

// Linker is a backend whose device can exchange data directly with devices of other processes, without host memory: GPUs with
// NCCL. Two Linkers are equal if they belong to the same backend, whatever wraps it.
type Linker interface {
	// LinkKind names the library that carries the exchanges, such as "NCCL 2.27.3". Ranks link only if all have the same kind.
	// The error says why there is none.
	LinkKind() (string, error)
	// NewLink returns an id by which the ranks of one group find each other. One rank calls it and sends the id to the others.
	NewLink() (id []byte, err error)
	// Every rank of a group, 0 to size-1, calls Link with the same id. Link returns when all have called it, or with an error
	// when ctx ends at the latest.
	Link(ctx context.Context, id []byte, rank, size int) (Link, error)
}

// Link is one rank's end of a connection between devices of several processes. It serves that rank's goroutine.
type Link interface {
	// Exchange sends and receives parts; all ranks that the parts name call it. It returns when the received parts are in place
	// and the sent parts may be overwritten. It returns an error if ctx ends. After any error the link is closed.
	Exchange(ctx context.Context, send, recv []Part) error
	// Close closes the link at once and does not wait for the other ranks.
	Close()
}

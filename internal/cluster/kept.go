package cluster

import (
	"crypto/sha256"
	"encoding/hex"
	"sync/atomic"

	"latentbeam/kernels"
)

// kept is a device's link that outlives its group, because opening a link may take longer than a batch. Each device
// retains its last link only.
type kept struct {
	label      string // identifies the link; equal on all its ranks
	device     string
	rank, size int
	dev        kernels.Linker
	link       kernels.Link
	noted      atomic.Bool // its failure was recorded
}

// labelOf returns the label of the link with an id.
func labelOf(id []byte) string {
	sum := sha256.Sum256(id)
	return hex.EncodeToString(sum[:8])
}

// idleLabel returns the label of a device's idle link for this rank and group size; "": it has none.
func (l *links) idleLabel(device string, dev kernels.Linker, rank, size int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k := l.idle[device]; k != nil && k.dev == dev && k.rank == rank && k.size == size {
		return k.label
	}
	return ""
}

// acquire returns the device's idle link with this label. It closes any other idle link of the device, because a new one will
// replace it.
func (l *links) acquire(device, label string) *kept {
	l.mu.Lock()
	k := l.idle[device]
	delete(l.idle, device)
	l.mu.Unlock()
	if k != nil && (label == "" || k.label != label) {
		k.link.Close()
		return nil
	}
	return k
}

// release retains a link for the next group.
func (l *links) release(k *kept) {
	l.mu.Lock()
	old, ended := l.idle[k.device], l.ended
	if !ended {
		if l.idle == nil {
			l.idle = map[string]*kept{}
		}
		l.idle[k.device] = k
	}
	l.mu.Unlock()
	if ended {
		old = k
	}
	if old != nil {
		old.link.Close()
	}
}

// close closes all idle links.
func (l *links) close() {
	l.mu.Lock()
	idle := l.idle
	l.idle, l.ended = nil, true
	l.mu.Unlock()
	for _, k := range idle {
		k.link.Close()
	}
}

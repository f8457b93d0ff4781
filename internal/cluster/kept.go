package cluster

import (
	"crypto/sha256"
	"encoding/hex"
	"sync/atomic"

	"latentbeam/kernels"
)

// kept is a link of a device, which outlives its group: making one takes longer than many a batch. A device keeps one,
// the last.
type kept struct {
	label      string // the same for all its ranks, and for no other link
	device     string
	rank, size int
	dev        kernels.Linker
	link       kernels.Link
	noted      atomic.Bool // that it has failed
}

// labelOf is the label of the link that was made by an id.
func labelOf(id []byte) string {
	sum := sha256.Sum256(id)
	return hex.EncodeToString(sum[:8])
}

// has returns the label of the idle link that a device has as this rank of so many, "" where it has none.
func (l *links) has(device string, dev kernels.Linker, rank, size int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k := l.idle[device]; k != nil && k.dev == dev && k.rank == rank && k.size == size {
		return k.label
	}
	return ""
}

// acquire returns the device's idle link with this label. Any other that it has is given up: there is going to be a new
// one.
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

// release puts a link by for the next group.
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

// close gives up all idle links.
func (l *links) close() {
	l.mu.Lock()
	idle := l.idle
	l.idle, l.ended = nil, true
	l.mu.Unlock()
	for _, k := range idle {
		k.link.Close()
	}
}

package cluster

import (
	"log/slog"
	"slices"
	"sync"
	"time"
)

// avoidFor is how long a process opens no links after one has failed. Opening links costs time, and a network that
// blocks the protocol of links but not TCP rarely changes.
const avoidFor = 10 * time.Minute

// Links counts how the groups that a process joined exchange data.
type Links struct {
	Kind   string   `json:"kind,omitempty"` // kind of the links, such as "NCCL 2.27.3"
	Linked int      `json:"linked"`         // groups whose devices were linked
	TCP    int      `json:"over_tcp"`       // groups that could have been linked and use TCP instead
	Why    []string `json:"why_over_tcp,omitempty"`
}

// links is a node's state of links. It logs each change once.
type links struct {
	within time.Duration // time for the devices of a group to connect

	mu    sync.Mutex
	facts Links
	avoid time.Time        // no links are opened before this time
	idle  map[string]*kept // by device
	ended bool             // the node is closed; no link is retained
}

// Links returns the counts of this node.
func (n *Node) Links() Links {
	n.links.mu.Lock()
	defer n.links.mu.Unlock()
	facts := n.links.facts
	facts.Why = slices.Clone(facts.Why)
	return facts
}

// countLinked counts a group whose devices are linked.
func (l *links) countLinked(kind string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.facts.Kind != kind {
		slog.Info("devices exchange with those of other hosts directly, not encrypted", "by", kind)
	}
	l.facts.Kind = kind
	l.facts.Linked++
}

// countTCP counts a group that exchanges over TCP, and records the reason.
func (l *links) countTCP(why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.facts.TCP++
	l.logOnce(why)
}

// logOnce logs and records a reason once.
func (l *links) logOnce(why string) {
	if !slices.Contains(l.facts.Why, why) && len(l.facts.Why) < maxReasons {
		l.facts.Why = append(l.facts.Why, why)
		slog.Warn("devices exchange with those of other hosts over TCP, through host memory", "why", why)
	}
}

// startAvoiding stops opening links for avoidFor.
func (l *links) startAvoiding(why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.avoid = time.Now().Add(avoidFor)
	l.logOnce(why)
}

// avoided reports whether links are avoided now.
func (l *links) avoided() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Before(l.avoid)
}

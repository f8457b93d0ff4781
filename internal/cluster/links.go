package cluster

import (
	"log/slog"
	"slices"
	"sync"
	"time"
)

// avoidFor is how long a process makes no links after one has failed: making them costs time, and a network that
// lets TCP through and not what links use rarely changes its mind.
const avoidFor = 10 * time.Minute

// Links is how the groups that a process joined exchange.
type Links struct {
	Kind   string   `json:"kind,omitempty"` // of the links, such as "NCCL 2.27.3"
	Linked int      `json:"linked"`         // groups whose devices were linked
	TCP    int      `json:"over_tcp"`       // groups that might have been linked and were not
	Why    []string `json:"why_over_tcp,omitempty"`
}

// links is what a node knows of links. What changes is said once in the log.
type links struct {
	within time.Duration // for the devices of a group to find each other

	mu    sync.Mutex
	facts Links
	avoid time.Time        // until when no links are made
	idle  map[string]*kept // by device
	ended bool             // the node: nothing is kept any more
}

// Links returns how the groups that this node joined exchange.
func (n *Node) Links() Links {
	n.links.mu.Lock()
	defer n.links.mu.Unlock()
	facts := n.links.facts
	facts.Why = slices.Clone(facts.Why)
	return facts
}

// made counts a group whose devices are linked.
func (l *links) made(kind string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.facts.Kind != kind {
		slog.Info("devices exchange with those of other hosts directly, not encrypted", "by", kind)
	}
	l.facts.Kind = kind
	l.facts.Linked++
}

// missed counts a group that exchanges over TCP, and why.
func (l *links) missed(why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.facts.TCP++
	l.logOnce(why)
}

// logOnce logs and keeps a reason, once.
func (l *links) logOnce(why string) {
	if !slices.Contains(l.facts.Why, why) && len(l.facts.Why) < maxReasons {
		l.facts.Why = append(l.facts.Why, why)
		slog.Warn("devices exchange with those of other hosts over TCP, through host memory", "why", why)
	}
}

// failed notes that links are not to be had for now.
func (l *links) failed(why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.avoid = time.Now().Add(avoidFor)
	l.logOnce(why)
}

// avoided reports whether no links are made now.
func (l *links) avoided() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Before(l.avoid)
}

package cluster

import (
	"errors"
	"net"
	"sync"
	"time"
)

// rankPair identifies the connection between two ranks of a group.
type rankPair struct {
	Group    string
	From, To int
}

// meeting joins a connection with the rank that waits for it, in either order of arrival.
type meeting struct {
	conn chan net.Conn
	over chan struct{} // closed when the rank will not come
}

// meetings holds the meetings of a process. Its zero value is empty.
type meetings struct {
	mu      sync.Mutex
	waiting map[rankPair]meeting
	ended   map[string]time.Time // groups that no rank here will join, with the time when that was recorded
}

// at returns the meeting of a pair of ranks.
func (s *meetings) at(at rankPair) (meeting, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ended := s.ended[at.Group]; ended {
		return meeting{}, errors.New("the group has ended here")
	}
	if m, ok := s.waiting[at]; ok {
		return m, nil
	}
	if len(s.waiting) >= maxWaiting {
		return meeting{}, errors.New("too many connections wait for their group")
	}
	if s.waiting == nil {
		s.waiting = map[rankPair]meeting{}
	}
	m := meeting{make(chan net.Conn), make(chan struct{})}
	s.waiting[at] = m
	return m, nil
}

func (s *meetings) withdraw(at rankPair) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waiting, at)
}

// close closes the current and future meetings of a group. A caller waits at most waitingTime, so a group is
// remembered for that long.
func (s *meetings) close(group string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for at, m := range s.waiting {
		if at.Group == group {
			close(m.over)
			delete(s.waiting, at)
		}
	}
	for g, since := range s.ended {
		if time.Since(since) > waitingTime {
			delete(s.ended, g)
		}
	}
	if s.ended == nil {
		s.ended = map[string]time.Time{}
	}
	if len(s.ended) < maxWaiting {
		s.ended[group] = time.Now()
	}
}

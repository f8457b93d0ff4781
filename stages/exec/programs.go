package exec

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"latentbeam/schemas/fault"
)

const (
	maxBackoff = 30 * time.Second
	maxStarts  = 3 // that may fail before the first program has said hello
)

// firstBackoff is the wait before a program is started again; it doubles with each further failure in a row.
var firstBackoff = 200 * time.Millisecond

// programs are those of a stage in one process: one for each batch at a time, on the device of the batch.
type programs struct {
	opts *options

	mu      sync.Mutex
	scratch *scratch // made with the first program
	dir     string   // of the scratch
	log     *logFile // for what programs print; nil: none
	show    *terminal
	logDir  string // for the log of a job that names none; "": none
	idle    []*program
	taken   []bool         // slots, by number
	free    chan struct{}  // closed when a program comes back; made anew
	failed  int            // failures in a row
	tries   map[string]int // of batches that failed, by their rows
	greeted bool           // one has said hello
	closed  bool
}

// errClosed is what a batch gets that comes after the end of the job.
var errClosed = errors.New("the stage is closed")

// acquire returns a program on the device that nobody uses, a new one where there is none, and the scratch directory.
func (s *programs) acquire(ctx context.Context, device string) (*program, string, error) {
	for {
		p, slot, wait, err := s.choose(device)
		switch {
		case err != nil:
			return nil, "", err
		case p != nil:
			return p, s.dir, nil
		case wait == nil:
			p, err := s.start(ctx, device, slot)
			return p, s.dir, err
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, "", context.Cause(ctx)
		}
	}
}

// logTo says where the log of a job lies that names none.
func (s *programs) logTo(dir string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logDir = dir
	return s.logName()
}

// openLog opens the log where there is one. A job goes on without the one that it has not named.
func (s *programs) openLog() (err error) {
	name := s.logName()
	if name == "" {
		return nil
	}
	s.log, err = openLogFile(name)
	if err != nil && s.opts.Log != "" {
		return fault.Fatal(fmt.Errorf("log: %w", err))
	}
	if err != nil {
		slog.Warn("what programs print is not kept", "error", err)
		s.log, s.logDir = nil, ""
	}
	return nil
}

// logName is the file of the log, "" for none.
func (s *programs) logName() string {
	if s.opts.Log != "" || s.logDir == "" {
		return s.opts.Log
	}
	return filepath.Join(s.logDir, filepath.Base(s.opts.label())+".log")
}

// choose finds an idle program, or a slot for a new one, or what to wait for.
func (s *programs) choose(device string) (p *program, slot int, wait chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, 0, nil, errClosed
	}
	if s.scratch == nil {
		if s.scratch, err = newScratch(s.opts.Scratch); err != nil {
			return nil, 0, nil, fault.TryAgain(err)
		}
		s.dir = s.scratch.dir
		if err := s.openLog(); err != nil {
			return nil, 0, nil, err
		}
	}
	if i := slices.IndexFunc(s.idle, func(p *program) bool { return p.device == device }); i >= 0 {
		p = s.idle[i]
		s.idle = slices.Delete(s.idle, i, i+1)
		return p, 0, nil, nil
	}
	if slot = slices.Index(s.taken, false); slot < 0 {
		slot = len(s.taken)
		if most := int(s.opts.Workers); most > 0 && slot >= most {
			if len(s.idle) == 0 {
				if s.free == nil {
					s.free = make(chan struct{})
				}
				return nil, 0, s.free, nil
			}
			other := s.idle[0] // on another device
			s.idle = slices.Delete(s.idle, 0, 1)
			other.stop(true)
			slot = other.slot
		} else {
			s.taken = append(s.taken, false)
		}
	}
	s.taken[slot] = true
	return nil, slot, nil, nil
}

// start starts a program in a slot, after a pause where others have failed before it.
func (s *programs) start(ctx context.Context, device string, slot int) (*program, error) {
	s.mu.Lock()
	failed := s.failed
	s.mu.Unlock()
	if failed > 0 {
		select {
		case <-time.After(min(maxBackoff, firstBackoff<<min(failed-1, 16))):
		case <-ctx.Done():
			s.releaseSlot(slot)
			return nil, context.Cause(ctx)
		}
	}
	l := launch{command: s.opts.Command, env: s.opts.environment(), memory: int64(s.opts.Memory),
		label: s.opts.label(), device: device, slot: slot, hide: s.opts.hide(), scratch: s.dir, log: s.log,
		show: s.show}
	p, err := l.start()
	if err != nil {
		s.releaseSlot(slot)
		return nil, fault.Fatal(fmt.Errorf("%s: %s: %w", troubleStart, s.opts.Command[0], err))
	}
	p.logLine("started: " + strings.Join(s.opts.Command, " "))
	stop := context.AfterFunc(ctx, p.child.Kill)
	err = p.greet(ctx, s.opts)
	if !stop() && ctx.Err() != nil {
		s.stop(p, err != nil)
		return nil, context.Cause(ctx)
	}
	if err == nil {
		s.mu.Lock()
		s.greeted = true
		s.mu.Unlock()
		slog.Debug("a program has said hello", "program", p.label, "slot", p.slot, "device", device)
		return p, nil
	}
	p.logLine(err.Error())
	s.stop(p, true)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.greeted && s.failed >= maxStarts {
		if name := s.logName(); name != "" {
			err = fmt.Errorf("%w; what they printed is in %s", err, name)
		}
		return nil, fault.Fatal(fmt.Errorf("%d programs in a row did not start: %w", s.failed, err))
	}
	return nil, fault.Retry(err)
}

// release takes a program back after a batch that went well.
func (s *programs) release(p *program) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = 0
	if s.closed {
		go p.stop(false)
		return
	}
	s.idle = append(s.idle, p)
	s.notifyWaiters()
}

// tried counts a batch that failed and returns how often it did.
func (s *programs) tried(rows string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tries == nil {
		s.tries = map[string]int{}
	}
	s.tries[rows]++
	return s.tries[rows]
}

// stop ends a program that is not to be used again. failed says that it is to blame.
func (s *programs) stop(p *program, failed bool) {
	p.stop(false)
	s.mu.Lock()
	if failed {
		s.failed++
	}
	s.mu.Unlock()
	s.releaseSlot(p.slot)
}

// releaseSlot gives a slot back.
func (s *programs) releaseSlot(slot int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken[slot] = false
	s.notifyWaiters()
}

func (s *programs) notifyWaiters() {
	if s.free != nil {
		close(s.free)
		s.free = nil
	}
}

// close ends all programs that are idle and removes what they have left. Nobody uses another by then.
func (s *programs) close() {
	s.mu.Lock()
	s.closed = true
	idle, dir := s.idle, s.scratch
	s.idle, s.scratch = nil, nil
	s.mu.Unlock()
	var all sync.WaitGroup
	for _, p := range idle {
		all.Go(func() { p.stop(true) })
	}
	all.Wait()
	if dir == nil {
		return
	}
	s.show.end(s.logName())
	if err := s.log.close(); err != nil {
		slog.Warn("the end of what programs printed is not in their log", "log", s.logName(), "error", err)
	}
	if err := dir.remove(); err != nil {
		slog.Warn("a scratch directory is left over", "dir", dir.dir, "error", err)
	}
}

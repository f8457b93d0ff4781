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
	maxStarts  = 3 // number of starts that may fail before the first program has said hello
)

// firstBackoff is the delay before a program is started again. It doubles with each further failure in a row.
var firstBackoff = 200 * time.Millisecond

// programs are a stage's programs in one process: one for each batch at a time, on the device of the batch.
type programs struct {
	opts *options

	mu      sync.Mutex
	scratch *scratch // created with the first program
	dir     string   // directory of the scratch
	log     *logFile // for the programs' output; nil: none
	show    *terminal
	logDir  string // for the log if the job names none; "": none
	idle    []*program
	taken   []bool         // slots in use, by number
	free    chan struct{}  // closed when a program is released; then replaced
	failed  int            // failures in a row
	tries   map[string]int // attempts of failed batches, by their rows
	greeted bool           // a program has said hello
	closed  bool
}

// errClosed is the error of a batch that arrives after the end of the job.
var errClosed = errors.New("the stage is closed")

// acquire returns a program on the device that no other batch uses, and the scratch directory. It starts a program if there is
// none.
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

// logTo returns the path of the log if the job names none.
func (s *programs) logTo(dir string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logDir = dir
	return s.logName()
}

// openLog opens the log, if there is one. An error concerns only a log that the job names.
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

// logName returns the path of the log, "" for none.
func (s *programs) logName() string {
	if s.opts.Log != "" || s.logDir == "" {
		return s.opts.Log
	}
	return filepath.Join(s.logDir, filepath.Base(s.opts.label())+".log")
}

// choose returns an idle program, or a slot for a new one, or a channel to wait for.
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

// start starts a program in a slot, after a delay if others have failed before it.
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

// release returns a program after a successful batch.
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

// tried counts a failed batch and returns how often it has failed.
func (s *programs) tried(rows string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tries == nil {
		s.tries = map[string]int{}
	}
	s.tries[rows]++
	return s.tries[rows]
}

// stop stops a program that must not be used again. failed says that the program is the reason.
func (s *programs) stop(p *program, failed bool) {
	p.stop(false)
	s.mu.Lock()
	if failed {
		s.failed++
	}
	s.mu.Unlock()
	s.releaseSlot(p.slot)
}

// releaseSlot frees a slot.
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

// close stops all idle programs and removes their files. No batch may be running.
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
	s.show.summarize(s.logName())
	if err := s.log.close(); err != nil {
		slog.Warn("the end of what programs printed is not in their log", "log", s.logName(), "error", err)
	}
	if err := dir.remove(); err != nil {
		slog.Warn("a scratch directory is left over", "dir", dir.dir, "error", err)
	}
}

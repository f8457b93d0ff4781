package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Command says how a child is started.
type Command struct {
	Path  string   // of the program, or its name on PATH
	Args  []string // behind the name
	Env   []string // nil: the environment of this process
	Stdin io.Reader
	// Stdout and Stderr get what the child writes; nil drops it. A file is handed to the child as it is.
	Stdout, Stderr io.Writer
	// Pipe has the child's output read by Child.Read. Stdout is not used then.
	Pipe bool
	// Files are the child's descriptors from 3 on. Start closes them here, and a Stdout or Stderr that is in CloseAfter too.
	Files      []*os.File
	CloseAfter []*os.File

	// Stall is the longest time for which somebody may wait for the child without progress: a byte of its input or output that
	// moves. 0: no bound.
	Stall time.Duration
	// AddressSpace bounds the address space of the child, in bytes, on Linux. 0: no bound.
	AddressSpace uint64
	// Memory bounds the memory of the child and all that it starts, in bytes, on Linux: by a control group where one can be made,
	// else the data of each process. 0: no bound.
	Memory int64
	// Sweep ends also processes that have left the child's group, on Linux: a keeper between this process and the child adopts them.
	Sweep bool
}

// ErrStalled is why a child was killed that made no progress for Command.Stall.
var ErrStalled = errors.New("no progress")

// errStopped is why a child was killed that nobody needs any more.
var errStopped = errors.New("stopped")

// ExitError is how a child ended that did not end with status 0.
type ExitError struct {
	Status int            // -1: a signal ended it
	Signal syscall.Signal // 0: none
}

func (e *ExitError) Error() string {
	if e.Signal != 0 {
		return "signal: " + e.Signal.String()
	}
	return fmt.Sprintf("exit status %d", e.Status)
}

// killDelay is how long the pipes of a child that has ended are waited for, and how long a killed one may take to end: a
// process that the kernel keeps in a call cannot be killed.
const killDelay = 10 * time.Second

// Child is a process that was started. Its methods may be called by several goroutines, Read by one at a time.
type Child struct {
	cmd    *exec.Cmd
	stall  time.Duration
	out    *os.File // what Read reads; nil: no pipe
	moved  atomic.Int64
	why    atomic.Pointer[error] // this process killed it: ErrStalled, the cause of its context, or errStopped
	doomed chan struct{}         // closed when it is killed
	detach func() bool           // from the context
	pid    int

	mu       sync.Mutex
	endGroup func() // kills the child and its group; nil: it is reaped, and the number of its group may be another's

	ended chan struct{} // closed when the child and its group are gone
	how   error         // of the end; set before ended is closed, as short is
	short Shortage
}

// Start starts a child. It is killed when ctx ends.
func Start(ctx context.Context, c Command) (*Child, error) {
	closeFiles := func() {
		for _, f := range append(c.Files, c.CloseAfter...) {
			f.Close()
		}
	}
	if err := ctx.Err(); err != nil {
		closeFiles()
		return nil, context.Cause(ctx)
	}
	p := &Child{cmd: exec.Command(c.Path, c.Args...), stall: c.Stall, doomed: make(chan struct{}), ended: make(chan struct{})}
	p.cmd.Env, p.cmd.ExtraFiles, p.cmd.WaitDelay = c.Env, c.Files, killDelay
	p.cmd.Stdout, p.cmd.Stderr = p.counting(c.Stdout), p.counting(c.Stderr)
	if c.Stdin != nil {
		p.cmd.Stdin = &counted{c.Stdin, &p.moved}
	}
	if c.Pipe {
		in, out, err := os.Pipe()
		if err != nil {
			closeFiles()
			return nil, err
		}
		p.out, p.cmd.Stdout = in, out
		c.CloseAfter = append(c.CloseAfter[:len(c.CloseAfter):len(c.CloseAfter)], out)
	}
	started := make(chan error)
	go func() {
		p.short, p.how = p.run(c, func(pid int, end func(), err error) {
			p.pid, p.endGroup = pid, end
			closeFiles()
			started <- err
		})
		close(p.ended)
	}()
	if err := <-started; err != nil {
		if p.out != nil {
			p.out.Close()
		}
		return nil, err
	}
	p.detach = context.AfterFunc(ctx, func() { p.kill(context.Cause(ctx)) })
	return p, nil
}

// reap notes that the child is about to be reaped.
func (p *Child) reap() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endGroup = nil
}

// exitOf turns what os/exec says of the end of a child into an ExitError.
func exitOf(err error) error {
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return err
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return &ExitError{-1, status.Signal()}
	}
	return &ExitError{Status: exit.ExitCode()}
}

// PID is the number of the child's process, and of its group.
func (p *Child) PID() int { return p.pid }

// Ended is closed when the child and the rest of its group are gone.
func (p *Child) Ended() <-chan struct{} { return p.ended }

// Shortage says whether want of memory has ended the child. It is known once the child has ended.
func (p *Child) Shortage() Shortage {
	<-p.ended
	return p.short
}

// Kill kills the child and its group, and returns at once. What was not read of its output is lost.
func (p *Child) Kill() { p.kill(errStopped) }

func (p *Child) kill(why error) {
	if p.why.CompareAndSwap(nil, &why) {
		close(p.doomed)
	}
	p.mu.Lock()
	if p.endGroup != nil {
		p.endGroup()
	}
	p.mu.Unlock()
	if p.out != nil {
		_ = p.out.SetReadDeadline(time.Now()) // whoever has left the group may hold the pipe
	}
}

// Read reads the child's output. At its end it returns io.EOF, also where the child was killed; Wait says how it ended.
func (p *Child) Read(b []byte) (int, error) {
	if p.stall > 0 {
		defer time.AfterFunc(p.stall, func() { p.kill(p.stalled()) }).Stop()
	}
	n, err := p.out.Read(b)
	p.moved.Add(int64(n))
	if err != nil && p.why.Load() != nil {
		err = io.EOF
	}
	return n, err
}

// stalled is why a child without progress is killed.
func (p *Child) stalled() error { return fmt.Errorf("%w for %v", ErrStalled, p.stall) }

// Wait waits for the end of the child and returns how it ended: nil for status 0, an *ExitError, and where this process
// killed it ErrStalled or the cause of its context. Output that was not read is drained.
func (p *Child) Wait() error {
	if p.out != nil {
		_, _ = io.Copy(io.Discard, readerOnly{p})
	}
	var tick <-chan time.Time
	if p.stall > 0 {
		ticker := time.NewTicker(p.stall)
		defer ticker.Stop()
		tick = ticker.C
	}
	for at := p.moved.Load(); ; {
		select {
		case <-p.ended:
			p.close()
			return p.end()
		case <-p.doomed:
			if err := p.gone(); err != nil {
				return errors.Join(*p.why.Load(), err)
			}
		case <-tick:
			now := p.moved.Load()
			if now == at {
				p.kill(p.stalled())
			}
			at = now
		}
	}
}

// Stop kills the child unless it has ended, and waits until it and its group are gone. An error says that they are not.
func (p *Child) Stop() error {
	p.Kill()
	return p.gone()
}

// gone waits for a child that was killed.
func (p *Child) gone() error {
	late := time.NewTimer(2 * killDelay)
	defer late.Stop()
	select {
	case <-p.ended:
		p.close()
		return nil
	case <-late.C:
		p.close()
		return fmt.Errorf("process %d does not end though it was killed: the system keeps it in a call, to a disk "+
			"or file server that does not answer", p.PID())
	}
}

// close releases what this side of the child holds.
func (p *Child) close() {
	p.detach()
	if p.out != nil {
		p.out.Close()
	}
}

// end is how a child ended, or why it was killed.
func (p *Child) end() error {
	if why := p.why.Load(); why != nil && p.how != nil && !errors.Is(*why, errStopped) {
		return *why
	}
	return p.how
}

// counting is a writer that counts what a child writes; a file is its own.
func (p *Child) counting(w io.Writer) io.Writer {
	if _, file := w.(*os.File); file || w == nil {
		return w
	}
	return &countedWriter{w, &p.moved}
}

// countedWriter counts the bytes that a child writes.
type countedWriter struct {
	io.Writer
	n *atomic.Int64
}

func (c *countedWriter) Write(b []byte) (int, error) {
	n, err := c.Writer.Write(b)
	c.n.Add(int64(n))
	return n, err
}

// counted counts the bytes that a child takes.
type counted struct {
	io.Reader
	n *atomic.Int64
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.n.Add(int64(n))
	return n, err
}

// readerOnly hides other methods of a reader.
type readerOnly struct{ io.Reader }

// Head is a writer that keeps the first Most bytes. It is safe for concurrent use.
type Head struct {
	Most int

	mu   sync.Mutex
	kept []byte
	lost bool
}

// Write takes all bytes and keeps those that there is room for.
func (h *Head) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := min(len(b), h.Most-len(h.kept))
	h.kept = append(h.kept, b[:n]...)
	h.lost = h.lost || n < len(b)
	return len(b), nil
}

// Bytes returns what was kept, and whether that is all.
func (h *Head) Bytes() (kept []byte, whole bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.kept[:len(h.kept):len(h.kept)], !h.lost
}

// String is what was kept.
func (h *Head) String() string {
	kept, _ := h.Bytes()
	return string(kept)
}

// Output runs a child to its end and returns what it writes, at most so many bytes: more is an error.
func Output(ctx context.Context, c Command, most int) ([]byte, error) {
	c.Pipe = true
	p, err := Start(ctx, c)
	if err != nil {
		return nil, err
	}
	out, err := io.ReadAll(io.LimitReader(p, int64(most)+1))
	if err == nil && len(out) > most {
		err = fmt.Errorf("it writes more than %d bytes", most)
	}
	if err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	return out, p.Wait()
}

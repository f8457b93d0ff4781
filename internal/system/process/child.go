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

// Command describes a child process.
type Command struct {
	Path  string   // path of the program, or its name on PATH
	Args  []string // arguments without the name
	Env   []string // nil: the environment of this process
	Stdin io.Reader
	// Stdout and Stderr receive what the child writes; nil discards it. A file becomes the descriptor of the child.
	Stdout, Stderr io.Writer
	// Pipe makes the child's output readable by Child.Read. Stdout is not used then.
	Pipe bool
	// Files become the child's descriptors from 3 on. Start closes Files and CloseAfter in this process.
	Files      []*os.File
	CloseAfter []*os.File

	// Stall is the longest time without progress while Read or Wait waits for the child. Progress is any byte of its input or output.
	// A child that stalls longer is killed. 0: no limit.
	Stall time.Duration
	// AddressSpace limits the address space of the child in bytes, on Linux. 0: no limit.
	AddressSpace uint64
	// Memory limits the memory of the child and its descendants in bytes, on Linux: by a control group if one can be created, else
	// by a limit on the data of each process. 0: no limit.
	Memory int64
	// Sweep also ends descendants that have left the child's process group, on Linux: a keeper process between this process and the
	// child adopts and kills them.
	Sweep bool
}

// ErrStalled is the error of a child that was killed because it made no progress for Command.Stall.
var ErrStalled = errors.New("no progress")

// errStopped is the reason of Kill and Stop.
var errStopped = errors.New("stopped")

// ExitError is the error of a child that did not end with status 0.
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

// killDelay is how long to wait for the pipes of a child that has ended, and for a killed child to end. A process inside an
// uninterruptible system call cannot be killed.
const killDelay = 10 * time.Second

// Child is a started process. Its methods may be called by several goroutines at the same time, except Read.
type Child struct {
	cmd        *exec.Cmd
	stall      time.Duration
	out        *os.File // pipe for Read; nil: no pipe
	progress   atomic.Int64
	killReason atomic.Pointer[error] // why this process killed it: ErrStalled, the cause of its context, or errStopped
	killed     chan struct{}         // closed when it is killed
	detach     func() bool           // stops watching the context
	pid        int

	mu       sync.Mutex
	endGroup func() // kills the child and its group; nil after it is reaped, because its group number can then be reused

	ended     chan struct{} // closed when the child and its group are gone
	exitError error         // how the child ended; exitError and shortage are set before ended is closed
	shortage  Shortage
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
	p := &Child{cmd: exec.Command(c.Path, c.Args...), stall: c.Stall, killed: make(chan struct{}), ended: make(chan struct{})}
	p.cmd.Env, p.cmd.ExtraFiles, p.cmd.WaitDelay = c.Env, c.Files, killDelay
	p.cmd.Stdout, p.cmd.Stderr = p.countOutput(c.Stdout), p.countOutput(c.Stderr)
	if c.Stdin != nil {
		p.cmd.Stdin = &countedReader{c.Stdin, &p.progress}
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
		p.shortage, p.exitError = p.run(c, func(pid int, end func(), err error) {
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

// beforeReap is called before the child is reaped. Its group can no longer be killed then.
func (p *Child) beforeReap() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endGroup = nil
}

// exitOf converts an error of os/exec about the end of a child to an ExitError.
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

// PID returns the number of the child's process, which is also the number of its group.
func (p *Child) PID() int { return p.pid }

// Ended returns a channel that is closed when the child and its whole group have ended.
func (p *Child) Ended() <-chan struct{} { return p.ended }

// Shortage returns whether the child was killed for lack of memory. It waits until the child has ended.
func (p *Child) Shortage() Shortage {
	<-p.ended
	return p.shortage
}

// Kill kills the child and its group and returns at once. Output that was not read is lost.
func (p *Child) Kill() { p.kill(errStopped) }

func (p *Child) kill(why error) {
	if p.killReason.CompareAndSwap(nil, &why) {
		close(p.killed)
	}
	p.mu.Lock()
	if p.endGroup != nil {
		p.endGroup()
	}
	p.mu.Unlock()
	if p.out != nil {
		_ = p.out.SetReadDeadline(time.Now()) // a process that has left the group may hold the pipe open
	}
}

// Read reads the child's output. It returns io.EOF at the end, also if the child was killed; Wait returns how it ended.
func (p *Child) Read(b []byte) (int, error) {
	if p.stall > 0 {
		defer time.AfterFunc(p.stall, func() { p.kill(p.stallError()) }).Stop()
	}
	n, err := p.out.Read(b)
	p.progress.Add(int64(n))
	if err != nil && p.killReason.Load() != nil {
		err = io.EOF
	}
	return n, err
}

// stallError returns the error for a child that makes no progress.
func (p *Child) stallError() error { return fmt.Errorf("%w for %v", ErrStalled, p.stall) }

// Wait discards the output that was not read, waits until the child ends and returns how it ended: nil for status 0, an *ExitError,
// or, if this process killed it, ErrStalled or the cause of its context.
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
	for at := p.progress.Load(); ; {
		select {
		case <-p.ended:
			p.close()
			return p.result()
		case <-p.killed:
			if err := p.waitKilled(); err != nil {
				return errors.Join(*p.killReason.Load(), err)
			}
		case <-tick:
			now := p.progress.Load()
			if now == at {
				p.kill(p.stallError())
			}
			at = now
		}
	}
}

// Stop kills the child unless it has ended, and waits until it and its group have ended. It returns an error if they do not end.
func (p *Child) Stop() error {
	p.Kill()
	return p.waitKilled()
}

// waitKilled waits until a killed child has ended. It gives up after 2*killDelay.
func (p *Child) waitKilled() error {
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

// close releases the resources of this process for the child.
func (p *Child) close() {
	p.detach()
	if p.out != nil {
		p.out.Close()
	}
}

// result returns why this process killed the child, or else how it ended.
func (p *Child) result() error {
	if why := p.killReason.Load(); why != nil && p.exitError != nil && !errors.Is(*why, errStopped) {
		return *why
	}
	return p.exitError
}

// countOutput returns a writer that counts what the child writes. A file is returned unchanged, because the child writes to it directly.
func (p *Child) countOutput(w io.Writer) io.Writer {
	if _, file := w.(*os.File); file || w == nil {
		return w
	}
	return &countedWriter{w, &p.progress}
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

// countedReader counts the bytes that a child reads.
type countedReader struct {
	io.Reader
	n *atomic.Int64
}

func (c *countedReader) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.n.Add(int64(n))
	return n, err
}

// readerOnly hides the other methods of a reader.
type readerOnly struct{ io.Reader }

// Head is a writer that keeps the first Most bytes. It is safe for concurrent use.
type Head struct {
	Most int

	mu        sync.Mutex
	kept      []byte
	truncated bool
}

// Write accepts all bytes and keeps as many as there is room for.
func (h *Head) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := min(len(b), h.Most-len(h.kept))
	h.kept = append(h.kept, b[:n]...)
	h.truncated = h.truncated || n < len(b)
	return len(b), nil
}

// Bytes returns the bytes that were kept, and whether they are all.
func (h *Head) Bytes() (kept []byte, whole bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.kept[:len(h.kept):len(h.kept)], !h.truncated
}

// String returns the bytes that were kept.
func (h *Head) String() string {
	kept, _ := h.Bytes()
	return string(kept)
}

// Output runs a child and returns its output. More than most bytes are an error.
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

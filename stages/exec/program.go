package exec

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	osexec "os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"latentbeam/internal/system/process"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

const (
	maxLine    = 1 << 20 // bytes of a message
	maxLogLine = 4 << 10 // bytes that are stored of a line of output
	maxQueued  = 64      // messages that wait to be processed
)

// How the user is told about a program that does not say hello; variables for tests.
var (
	noteEvery    = time.Second
	firstWarning = 10 * time.Second // each next warning comes after four times as long
)

// grace is how long a program may take to exit by itself; a variable for tests.
var grace = 5 * time.Second

// program is one running process with its children. One batch at a time uses it.
type program struct {
	label    string
	command  string // without its arguments
	device   string // UUIDs of its GPUs, separated by commas; "" for none
	slot     int    // its slot in the stage's programs
	child    *process.Child
	requests *os.File
	answers  chan answer // closed at the end of descriptor 4
	broken   error       // why reading ended; set before answers and heard are closed
	heard    chan struct{}
	logged   chan struct{} // closed at the end of its output
	beats    bool          // it sends heartbeats
	seen     atomic.Int64  // time of the last message, in Unix nanoseconds
	batches  int
	last     lastLine
	hide     *strings.Replacer
	file     *logFile // for its output; nil: none
	terminal *terminal
}

// launch describes how a program is started.
type launch struct {
	command []string
	env     []string
	memory  int64 // in bytes; 0: no limit
	label   string
	device  string
	slot    int
	hide    *strings.Replacer
	scratch string
	log     *logFile // nil: none
	show    *terminal
}

// start starts the program. It does not wait for its hello.
func (l launch) start() (*program, error) {
	theirs, requests, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	answers, ours, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, theirs.Close(), requests.Close())
	}
	logs, stdout, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, theirs.Close(), requests.Close(), answers.Close(), ours.Close())
	}
	env := append(l.env, fmt.Sprintf("LATENTBEAM_WORKER=%d", l.slot), "LATENTBEAM_SCRATCH="+l.scratch)
	if l.device != "" {
		env = append(env, "CUDA_VISIBLE_DEVICES="+l.device)
	}
	p := &program{label: l.label, command: l.command[0], device: l.device, slot: l.slot, requests: requests, hide: l.hide, file: l.log, terminal: l.show,
		answers: make(chan answer, maxQueued), logged: make(chan struct{}), heard: make(chan struct{})}
	// The program outlives the batch for which it is started.
	p.child, err = process.Start(context.Background(), process.Command{Path: l.command[0], Args: l.command[1:], Env: env,
		Stdout: stdout, Stderr: stdout, Files: []*os.File{theirs, ours}, CloseAfter: []*os.File{stdout}, Memory: l.memory, Sweep: true})
	if err != nil {
		return nil, errors.Join(err, requests.Close(), answers.Close(), logs.Close())
	}
	p.seen.Store(time.Now().UnixNano())
	go p.listen(answers)
	go p.log(logs)
	return p, nil
}

// listen reads the answers until descriptor 4 is closed or a line is not a message.
func (p *program) listen(from *os.File) {
	defer close(p.answers)
	defer close(p.heard)
	defer from.Close()
	in := bufio.NewReaderSize(from, 64<<10)
	for {
		line, err := readLine(in)
		if err != nil {
			if !errors.Is(err, io.EOF) {
				p.broken = err
			}
			return
		}
		a, err := parseAnswer(line)
		if err != nil {
			p.broken = err
			return
		}
		p.seen.Store(time.Now().UnixNano())
		switch a.Type {
		case typeHeartbeat:
			continue
		case typeLog:
			p.forwardLog(a)
			continue
		}
		select {
		case p.answers <- a:
		case <-p.child.Ended(): // and no one reads the answers any more
			select {
			case p.answers <- a:
			default:
				return
			}
		}
	}
}

// readLine reads a line of at most maxLine bytes, without its end. Text after the last line feed is not a line.
func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		if line = append(line, part...); len(line) > maxLine {
			return nil, fmt.Errorf("a line on descriptor 4 has more than %d bytes", maxLine)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// log reads the program's output.
func (p *program) log(from *os.File) {
	defer close(p.logged)
	defer from.Close()
	in := bufio.NewReaderSize(from, maxLogLine)
	for {
		line, _, err := in.ReadLine()
		if err != nil {
			return
		}
		if text := strings.TrimRight(p.hide.Replace(string(line)), " \t\r"); strings.TrimSpace(text) != "" {
			p.last.set(text)
			p.file.print("%s %d: %s", p.label, p.slot, text)
		}
	}
}

// logLine adds a line of latentbeam itself to the log.
func (p *program) logLine(text string) {
	p.file.print("%s %d: [%s] %s", p.label, p.slot, time.Now().UTC().Format(time.DateTime), p.hide.Replace(text))
}

// send writes a request. If the program does not read it in time, it hangs.
func (p *program) send(r request, within time.Duration) error {
	r.V = protocolVersion
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := p.requests.SetWriteDeadline(time.Now().Add(within)); err != nil {
		return err
	}
	_, err = p.requests.Write(append(line, '\n'))
	return err
}

// greet exchanges hellos. The kinds that the program takes and gives must agree with the job's.
func (p *program) greet(ctx context.Context, o *options) error {
	within, began := time.Duration(o.StartTimeout), time.Now()
	defer stages.Note(ctx)("")
	if err := p.send(request{Type: typeHello, Takes: o.Takes, Gives: o.outputKind()}, within); err != nil {
		return p.adviseHello(p.describeEnd(troubleStart))
	}
	late := time.NewTimer(within)
	defer late.Stop()
	look := time.NewTicker(noteEvery)
	defer look.Stop()
	for warn := firstWarning; ; {
		select {
		case a, ok := <-p.answers:
			if !ok {
				return p.adviseHello(p.describeEnd(troubleStart))
			}
			p.beats = a.Heartbeat > 0
			if why := a.refused(o); why != "" {
				return &trouble{troubleStart, why}
			}
			return nil
		case <-look.C:
			waited := time.Since(began).Round(noteEvery)
			stages.Note(ctx)(fmt.Sprintf("its program has sent no hello for %v", waited))
			if waited >= warn {
				warn *= 4
				slog.Warn("a program was started and has not said hello, so no row is given to it: it still loads, or it never says "+
					"hello", "program", p.label, "waited", waited, "given_up_after", within, "last_printed", p.last.get())
			}
		case <-late.C:
			text := fmt.Sprintf("it sent no hello within %v, the start_timeout", within)
			if last := p.last.get(); last != "" {
				text += "; the last it printed: " + last
			}
			return p.adviseHello(&trouble{troubleStart, text})
		}
	}
}

// adviseHello adds to the trouble of a program without a hello how to send one, unless the program failed by itself.
func (p *program) adviseHello(t *trouble) *trouble {
	if p.broken == nil && !strings.Contains(t.text, "status") && !strings.Contains(t.text, "signal") {
		t.text += "; a program says hello on descriptor 4 when it is ready: in Python, NAME.run() does it at the end of the file"
	}
	return t
}

// refused says what is wrong with the first message of a program, or "".
func (a answer) refused(o *options) string {
	switch {
	case a.Type != typeHello:
		return "its first message is a " + a.Type + ", not a hello"
	case a.V != protocolVersion:
		return fmt.Sprintf("its hello has version %d, latentbeam speaks version %d", a.V, protocolVersion)
	case a.Takes != "" && a.Takes != o.Takes, a.Gives != "" && a.Gives != o.Gives && a.Gives != o.outputKind():
		return fmt.Sprintf("it takes %s and gives %s, the job says takes: %s, gives: %s", a.Takes, a.Gives, o.Takes, o.Gives)
	}
	return ""
}

// forwardLog forwards a log message.
func (p *program) forwardLog(a answer) {
	level := map[string]slog.Level{"warning": slog.LevelWarn, "error": slog.LevelError, "debug": slog.LevelDebug}[a.Level]
	text := p.hide.Replace(a.Message)
	p.terminal.show(time.Now(), level, text, p.label)
	p.file.print("%s %d: %s", p.label, p.slot, text)
}

// describeEnd describes how the program ended, or what it wrote instead of messages.
func (p *program) describeEnd(kind string) *trouble {
	if closedWithin(p.heard, grace) && p.broken != nil {
		return &trouble{troubleProtocol, p.hide.Replace(p.broken.Error())}
	}
	if !closedWithin(p.child.Ended(), grace) {
		return &trouble{troubleProtocol, "it closed descriptor 3 or 4 and did not end"}
	}
	closedWithin(p.logged, grace)
	short := p.child.Shortage()
	if short == process.OwnBound {
		return &trouble{troubleMemory, "the system killed it at its bound, the option memory"}
	}
	text := "it ended"
	var status *process.ExitError
	if errors.As(p.child.Wait(), &status) {
		switch {
		case status.Signal == 0:
			text = fmt.Sprintf("it ended with status %d", status.Status)
		case status.Signal == syscall.SIGKILL && short == process.HostFull:
			kind, text = troubleMemory, "the system killed it when memory was short on this host"
		default:
			text = "it was ended by the signal " + status.Signal.String()
			if status.Signal == syscall.SIGKILL {
				text += ", as the system does when memory is short"
			}
		}
	}
	if last := p.last.get(); last != "" {
		text += "; the last it printed: " + last
		if kind == troubleStart {
			text += p.install(last)
		}
	}
	return &trouble{kind, text}
}

// missing matches the name of a Python module that is missing, in the last line of output.
var missing = regexp.MustCompile(`No module named '([\w-]+)`)

// install suggests how to install a missing Python module, "" if none is missing.
func (p *program) install(last string) string {
	found := missing.FindStringSubmatch(last)
	if found == nil {
		return ""
	}
	python := p.command
	if there, err := osexec.LookPath(p.command); err == nil {
		if python, err = filepath.Abs(there); err != nil {
			python = there
		}
	}
	if found[1] != "latentbeam_stage" {
		return fmt.Sprintf("; install it: %s -m pip install %s", python, found[1])
	}
	return fmt.Sprintf("; install it from the tree of latentbeam: %s -m pip install ./python/latentbeam-stage, or put "+
		"latentbeam_stage.py, "+
		"which `latentbeam init --template exec` writes, beside the program", python)
}

// endError returns the end of the program as an error. A program that reached its memory limit may manage a smaller batch.
func (p *program) endError() error {
	t := p.describeEnd(troubleCrash)
	if t.kind == troubleMemory && p.child.Shortage() == process.OwnBound {
		return fault.OutOfMemory(t)
	}
	return retried(t)
}

// closedWithin reports whether the channel is closed within a time.
func closedWithin(c <-chan struct{}, d time.Duration) bool {
	select {
	case <-c:
		return true
	default:
	}
	late := time.NewTimer(d)
	defer late.Stop()
	select {
	case <-c:
		return true
	case <-late.C:
		return false
	}
}

// stop stops the program, politely if there is time, and waits until it has exited.
func (p *program) stop(polite bool) {
	p.requests.Close()
	if polite && closedWithin(p.child.Ended(), grace) || closedWithin(p.child.Ended(), 0) {
		return // with its whole group
	}
	if err := p.child.Stop(); err != nil {
		slog.Warn("a program is left over", "program", p.label, "error", err)
	}
}

// directory creates the directory of the next batch.
func (p *program) directory(scratch string) (string, error) {
	p.batches++
	dir := filepath.Join(scratch, fmt.Sprintf("%d-%d-%d", p.slot, p.child.PID(), p.batches))
	return dir, os.Mkdir(dir, 0o700)
}

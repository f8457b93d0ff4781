package exec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

const stageName = "exec"

// Spec returns the stage `exec`. The job says what it takes and gives.
func Spec() stages.Spec {
	return stages.Spec{
		Name: stageName,
		Doc: "any program as a stage (docs/exec.md): command, takes, gives, version, params, digest, env; " +
			"a name where a job has several",
		Version: 1,
		Program: programOf,
		Of:      specOf,
		New:     open,
	}
}

// specOf returns the spec for the options of one entry.
func specOf(o stages.Options) (stages.Spec, error) {
	s := Spec()
	opts, err := read(o)
	if err != nil {
		return s, err
	}
	s.In, s.Out, s.MeasuresOnly = stages.Kind(opts.Takes), stages.Kind(opts.outputKind()), opts.onlyMeasures()
	for _, p := range opts.Params {
		s.Params = append(s.Params, param(p))
	}
	if s.In == stages.KindMedia && !slices.Contains(s.Params, stages.ParamMedia) {
		s.Params = append(s.Params, stages.ParamMedia)
	}
	return s, nil
}

// programOf returns the program that the options name.
func programOf(o stages.Options) (stages.Program, error) {
	opts, err := read(o)
	p := stages.Program{Command: opts.Command, Workers: int(opts.Workers)}
	for _, set := range []struct {
		name  string
		given bool
	}{{"env", len(opts.Env) > 0}, {"log", opts.Log != ""}, {"scratch", opts.Scratch != ""}} {
		if set.given {
			p.Sets = append(p.Sets, set.name)
		}
	}
	return p, err
}

func open(_ *stages.Model, o stages.Options) (stages.Stage, error) {
	opts, err := read(o)
	if err != nil {
		return nil, err
	}
	digest, err := digestOf(opts.Digest)
	if err != nil {
		return nil, err
	}
	return &stage{opts: opts, digest: digest, programs: &programs{opts: opts, show: newTerminal()}}, nil
}

type stage struct {
	opts     *options
	digest   string
	programs *programs
}

// Digest identifies the files that the results depend on by content.
func (s *stage) Digest() string { return s.digest }

// Check accepts every row: only the program knows what it can do.
func (s *stage) Check(*schemas.PromptRow) error { return nil }

// Need returns 0: the program has its own memory.
func (s *stage) Need(*schemas.PromptRow, int) (int64, error) { return 0, nil }

// Capabilities has the size of a batch, whether the program is available, the devices of a program, and how to stop the
// programs.
func (s *stage) Capabilities() stages.Capabilities {
	c := stages.Capabilities{TakesRaw: true, MaxBatch: s.opts.Batch, Ready: s.opts.checkCommand, Varies: !s.opts.Deterministic,
		Log: s.programs.logTo, Close: s.programs.close}
	if s.opts.onlyMeasures() {
		c.Measures = []stages.Measure{s.measure()}
	}
	if n := s.opts.Devices; n > 1 {
		c.Spread = &stages.Spread{Least: n, Width: func(*schemas.PromptRow) int { return n }, Run: s.runSet}
	}
	return c
}

// measure returns the program's measure. It is the same for a job that says that the program only measures, and for older jobs
// that do not say so.
func (s *stage) measure() stages.Measure {
	looks := *s.opts
	looks.Gives = givesReadings
	js, _ := json.Marshal(&looks) // texts, in maps with texts
	m := stages.Measure{Name: stageName, Version: 1, Options: string(js), Weights: s.digest}
	for _, p := range s.opts.Params {
		if param(p) != stages.ParamMedia {
			m.Params = append(m.Params, param(p))
		}
	}
	return m
}

// AsMeasure returns the measure of a program that takes and gives the same kind, as for a job in which it only measures. ok is
// false if it takes and gives different kinds.
func AsMeasure(s stages.Stage) (m stages.Measure, ok bool) {
	own, is := s.(*stage)
	if !is || own.opts.Takes != own.opts.outputKind() {
		return m, false
	}
	return own.measure(), true
}

// AsBefore converts the canonical options of a program that gives readings to those of a program that gives what it takes, as
// in earlier releases.
func AsBefore(canonical []byte) ([]byte, error) {
	var o options
	if err := json.Unmarshal(canonical, &o); err != nil {
		return nil, fmt.Errorf("options of a program: %w", err)
	}
	o.Gives = o.outputKind()
	return json.Marshal(&o)
}

// Run processes the elements with a program on one device.
func (s *stage) Run(ctx context.Context, dev kernels.Backend, batch []*stages.Element) error {
	return s.runSet(ctx, stages.Alone(dev), batch)
}

// runSet processes the elements with a program on the devices of a set. It sends as many elements at a time as the program
// accepts.
func (s *stage) runSet(ctx context.Context, set *stages.Set, batch []*stages.Element) error {
	switch n := s.opts.Devices; {
	case len(set.Devices) < set.Ranks():
		return fault.Fatal(fmt.Errorf("devices: a program has its %d devices on one host; of %d that are free only %d are "+
			"on this one; give each host a multiple of %d", n, set.Ranks(), len(set.Devices), n))
	case len(set.Devices) < n:
		return fault.TryAgain(fmt.Errorf("devices: a program needs %d devices, and %d are left", n, len(set.Devices)))
	}
	var uuids []string
	for _, dev := range set.Devices[:s.opts.Devices] {
		if uuid := dev.Capabilities().UUID; uuid != "" {
			uuids = append(uuids, uuid)
		}
	}
	slices.Sort(uuids)
	for some := range slices.Chunk(batch, s.opts.Batch) {
		if err := s.runBatch(ctx, strings.Join(uuids, ","), some); err != nil {
			return err
		}
	}
	return nil
}

// runBatch sends elements to a program on the devices (UUIDs, separated by commas), in one batch of the protocol.
func (s *stage) runBatch(ctx context.Context, devices string, batch []*stages.Element) error {
	batch, media, release, err := s.localMedia(ctx, batch)
	defer release()
	if err != nil || len(batch) == 0 {
		return err
	}
	p, scratch, err := s.programs.acquire(ctx, devices)
	if err != nil {
		return err
	}
	dir, err := p.directory(scratch)
	if err != nil {
		s.programs.stop(p, false)
		return fault.Retry(fmt.Errorf("scratch: %w; name another directory by the option scratch", err))
	}
	x := &exchange{ctx: ctx, opts: s.opts, measure: s.measure(), program: p, dir: dir, batch: batch, media: media}
	settled := false
	defer func() {
		if !settled { // a panic occurred
			s.programs.stop(p, false)
		}
	}()
	err = x.do()
	settled = true
	var wrong *trouble
	switch {
	case errors.As(err, &wrong):
		rows := ids(batch)
		p.logLine(fmt.Sprintf("%v (%s, try %d)", wrong, rows, s.programs.tried(rows)))
		s.programs.stop(p, true)
	case x.lost:
		s.programs.stop(p, false)
	default:
		s.programs.release(p)
	}
	return errors.Join(err, os.RemoveAll(dir))
}

// ids lists the rows of a batch for people.
func ids(batch []*stages.Element) string {
	var all []string
	for _, e := range batch {
		all = append(all, e.Row.ID)
	}
	if len(all) == 1 {
		return "row " + all[0]
	}
	return "rows " + strings.Join(all, ", ")
}

// exchange is one batch of the protocol.
type exchange struct {
	ctx     context.Context
	opts    *options
	measure stages.Measure // of a program that only measures
	program *program
	dir     string
	batch   []*stages.Element
	media   []string // paths of the elements' media files

	answered map[string]bool
	steps    map[string]int // finished steps of each row, by key
	failed   error          // a row asked to retry the whole batch
	lost     bool           // the program did not finish the batch
}

// do sends the batch and processes the answers.
func (x *exchange) do() error {
	r := request{Type: typeBatch, Batch: x.program.batches, Scratch: x.dir}
	if x.program.device != "" {
		r.Devices = strings.Split(x.program.device, ",")
	}
	for i, e := range x.batch {
		row, err := x.row(i, e)
		if err != nil {
			return fault.Retry(fmt.Errorf("scratch: %w; name another directory by the option scratch", err))
		}
		r.Rows = append(r.Rows, row)
	}
	x.lost = true
	x.program.last.clear()
	x.program.seen.Store(time.Now().UnixNano())
	if err := x.program.send(r, time.Duration(x.opts.Heartbeat)); err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return retried(&trouble{troubleHang, "it does not read its requests"})
		}
		return x.program.endError()
	}
	if err := x.listen(); err != nil {
		return err
	}
	x.lost = false
	return x.failed
}

// listen processes answers until the batch is done.
func (x *exchange) listen() error {
	x.answered = map[string]bool{}
	late := time.NewTimer(time.Duration(x.opts.Timeout))
	defer late.Stop()
	silent := time.NewTicker(max(time.Duration(x.opts.Heartbeat)/4, time.Millisecond))
	defer silent.Stop()
	for {
		select {
		case a, ok := <-x.program.answers:
			if !ok {
				return x.program.endError()
			}
			if done, err := x.receive(a); done || err != nil {
				return err
			}
		case <-silent.C:
			quiet := time.Since(time.Unix(0, x.program.seen.Load()))
			if x.program.beats && quiet > time.Duration(x.opts.Heartbeat) {
				return retried(&trouble{troubleHang, fmt.Sprintf("it has sent no heartbeat for %v", time.Duration(x.opts.Heartbeat))})
			}
		case <-late.C:
			return retried(&trouble{troubleTimeout, fmt.Sprintf("the batch took more than %v", time.Duration(x.opts.Timeout))})
		case <-x.ctx.Done():
			x.cancel()
			return context.Cause(x.ctx)
		}
	}
}

// cancel asks the program to stop the batch, and waits a while for it.
func (x *exchange) cancel() {
	if x.program.send(request{Type: typeCancel, Batch: x.program.batches}, grace) != nil {
		return
	}
	late := time.NewTimer(grace)
	defer late.Stop()
	for {
		select {
		case a, ok := <-x.program.answers:
			if !ok {
				return
			}
			if a.Type == typeDone && a.Batch == x.program.batches {
				x.lost = false
				return
			}
		case <-late.C:
			return
		}
	}
}

// receive processes one answer. An error ends the batch.
func (x *exchange) receive(a answer) (done bool, err error) {
	wrong := func(format string, args ...any) error {
		return retried(&trouble{troubleProtocol, x.program.hide.Replace(fmt.Sprintf(format, args...))})
	}
	if a.Type == typeHello {
		return false, wrong("a second hello")
	}
	if a.Type == typeProgress {
		x.progress(a)
		return false, nil
	}
	if a.Batch != x.program.batches {
		return false, wrong("a %s is of batch %d, not of batch %d", a.Type, a.Batch, x.program.batches)
	}
	if a.Type == typeDone {
		if missing := len(x.batch) - len(x.answered); missing > 0 {
			return false, wrong("the batch is done, but %d of %d rows have no answer", missing, len(x.batch))
		}
		return true, nil
	}
	i := slices.IndexFunc(x.batch, func(e *stages.Element) bool { return e.Key.String() == a.Key })
	switch {
	case i < 0:
		return false, wrong("a %s has the key %.80q, which no row of the batch has", a.Type, a.Key)
	case x.answered[a.Key]:
		return false, wrong("two answers have the same key")
	}
	x.answered[a.Key] = true
	if a.Type == typeError {
		return false, x.rowError(x.batch[i], a)
	}
	a.Readings = masked(a.Readings, x.program.hide)
	if err := x.result(x.batch[i], a); err != nil { // it names a file that the program chose
		x.batch[i].Fail(x.opts.label(), fault.Row(&trouble{troubleAnswer, x.program.hide.Replace(err.Error())}))
	}
	return false, nil
}

// masked returns readings without the secrets of the stage, because readings become columns of tables.
func masked(r readings, hide *strings.Replacer) readings {
	if len(r) == 0 {
		return r
	}
	clean := make(readings, len(r))
	for name, value := range r {
		clean[hide.Replace(name)] = hide.Replace(value)
	}
	return clean
}

// progress reports the progress of a row. A program may process rows one by one or together, so the steps of all rows are added
// up.
func (x *exchange) progress(a answer) {
	if a.Batch != x.program.batches || a.Of < 1 || a.Step < 0 || a.Step > a.Of || a.Of > maxSteps {
		return
	}
	if x.steps == nil {
		x.steps = map[string]int{}
	}
	if len(x.steps) < len(x.batch) || x.steps[a.Key] > 0 {
		x.steps[a.Key] = max(x.steps[a.Key], a.Step)
	}
	done := 0
	for _, n := range x.steps {
		done += min(n, a.Of)
	}
	stages.Progress(x.ctx)(done, a.Of*len(x.batch))
}

// maxSteps limits the number of steps that a program may report.
const maxSteps = 1 << 20

// rowError processes an error of a row.
func (x *exchange) rowError(e *stages.Element, a answer) error {
	err := errors.New(x.program.hide.Replace(a.Message))
	switch a.Class {
	case "row", "":
		e.Fail(x.opts.label(), fault.Row(err))
	case "retry":
		x.failed = fault.Retry(err)
	case "memory":
		x.failed = fault.OutOfMemory(err)
	case "fatal":
		x.failed = fault.Fatal(err)
	default:
		return retried(&trouble{troubleProtocol, fmt.Sprintf("an error has the unknown class %.40q", a.Class)})
	}
	return nil
}

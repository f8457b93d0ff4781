package config

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"sort"
	"strings"
	"time"

	"latentbeam/internal/config/document"

	"latentbeam/schemas"
)

// MaxWorkers is the maximum number of workers of a process.
const MaxWorkers = 1024

// Bounds of values that depend on the machine. They only catch typing mistakes; the planner decides what fits the
// machine.
const (
	maxThreads     = 4096
	maxRetries     = 20
	maxRowsPerFile = 10_000_000
	maxHooks       = 20
	maxDrain       = 24 * time.Hour
	minMemory      = 16 << 20
)

var (
	inputFormats = []string{"auto", "csv", "json", "jsonl", "parquet", "txt"}
	outputParts  = []string{"video", "latents", "embeddings"}
)

// validate checks what types cannot express. It does not repeat a problem that decoding found at the same position.
func (c *Config) validate(errors *document.Error) {
	v := validator{config: c, errors: errors, decodeProblems: len(errors.Problems)}
	v.validateVersion()
	v.validateModel()
	v.validateInput()
	v.validateDefaults()
	v.validateStages()
	v.validateOutput()
	v.validateRunner()
	v.validateResources()
	sort.SliceStable(errors.Problems, func(i, j int) bool {
		a, b := errors.Problems[i].Pos, errors.Problems[j].Pos
		return a.Flag == b.Flag && a.Line < b.Line
	})
}

type validator struct {
	config         *Config
	errors         *document.Error
	decodeProblems int // number of problems that decoding found
}

func (v *validator) problem(path, fix, format string, args ...any) {
	v.errors.Add(v.config.At(path), fmt.Sprintf(format, args...), fix)
}

// missingKey adds a problem for a required key that the file does not have.
func (v *validator) missingKey(path, example string) {
	if v.given(path) {
		return // given, but wrong: decode has reported it
	}
	v.errors.Add(document.Position{Source: v.config.src}, fmt.Sprintf("the key %s is missing", path),
		"add "+example)
}

func (v *validator) given(path string) bool { return v.config.Given(path) }

// SetLength converts a defaults.num_frames that is a time, such as "4s", to frames by the rules of naming at fps.
func (c *Config) SetLength(naming *schemas.Naming, fps float64) error {
	if c.root == nil {
		return nil
	}
	e := c.root.Lookup("defaults")
	if e == nil {
		return nil
	}
	if e = e.Value.Lookup("num_frames"); e == nil || e.Value.Kind != document.TextKind {
		return nil
	}
	frames, err := naming.Frames(e.Value.Text, fps)
	if err != nil {
		return c.Errorf("defaults.num_frames", "num_frames is %q: %v", e.Value.Text, err)
	}
	c.Defaults.NumFrames = Length(frames)
	return nil
}

// Given reports whether the file or a flag gives a value at a dotted path of keys.
func (c *Config) Given(path string) bool {
	n := c.root
	if n == nil {
		return false
	}
	for _, part := range strings.Split(path, ".") {
		e := n.Lookup(part)
		if e == nil {
			return false
		}
		n = e.Value
	}
	return n.Kind != document.NullKind
}

func (v *validator) validateVersion() {
	switch got := v.config.Version; {
	case got == Version:
	case !v.given("version"):
		v.missingKey("version", "version: 1")
	case got != 0 || v.config.root.Lookup("version").Value.Kind == document.IntKind:
		v.problem("version", "this release reads version: 1", "version %d is not known", got)
	}
}

func (v *validator) oneOf(path, value string, known []string) {
	if !slices.Contains(known, value) {
		v.problem(path, suggestName(value, known), "%s %q is not known", path, document.Clip(value, document.ValueRunes))
	}
}

func (v *validator) validateDefaults() {
	e := v.config.root.Lookup("defaults")
	if e == nil {
		return
	}
	for _, p := range e.Value.Pairs {
		field, known := schemas.FieldByName(p.Key)
		var err error
		switch {
		case !known:
		case field.Kind == schemas.Integer && p.Value.Kind == document.IntKind:
			err = field.CheckInteger(p.Value.Int)
		case field.Kind == schemas.Real && (p.Value.Kind == document.IntKind || p.Value.Kind == document.FloatKind):
			err = field.CheckReal(p.Value.Float)
		case field.Kind == schemas.Text && float64(len(p.Value.Text)) > field.Max:
			err = fmt.Errorf("%d bytes are too many, %s", len(p.Value.Text), field.Range())
		}
		if err != nil {
			v.errors.Add(p.Value.Pos, fmt.Sprintf("defaults.%s: %v", p.Key, err), "")
		}
	}
	v.validateSize()
}

func (v *validator) validateStages() {
	e := v.config.root.Lookup("stages")
	const example = "[encode_text, denoise, decode_vae, encode_video]"
	if e == nil || e.Value.Kind == document.NullKind {
		if !v.config.wholeModel() {
			v.missingKey("stages", "stages: "+example)
		}
		return
	}
	if e.Value.Kind == document.ListKind && len(e.Value.Items) == 0 {
		v.problem("stages", "write stages: "+example, "the list of stages is empty")
	}
	first := map[string]document.Position{}
	for i, item := range e.Value.Items {
		s, ok := stageOf(item)
		switch {
		case !ok && item.Kind == document.MapKind && len(item.Pairs) > 1:
			v.errors.Add(item.Pairs[1].Pos, fmt.Sprintf("stages[%d] has more than one key", i),
				fmt.Sprintf("begin %s with \"- \" of its own, or indent it below %s if it is an option",
					item.Pairs[1].Key, item.Pairs[0].Key))
		case !ok && item.Kind == document.MapKind && len(item.Pairs) == 1:
			p := item.Pairs[0]
			v.errors.Add(p.Value.Pos, fmt.Sprintf("the options of %s must be a map of keys and values, not %s",
				p.Key, p.Value.Describe()), fmt.Sprintf("write - %s: {}", p.Key))
		case !ok:
			v.errors.Add(item.Pos, fmt.Sprintf("stages[%d] must be %s, not %s", i, stageForm, item.Describe()),
				"write - denoise: {}")
		case first[s.Label()] != (document.Position{}):
			v.errors.Add(s.Position(), fmt.Sprintf("stage %q is in the list twice", s.Label()),
				"a name stands once, so that --set stages."+s.Label()+".key=value can find it")
		}
		first[s.Label()] = item.Pos
	}
}

func (v *validator) validateOutput() {
	out := v.config.Output
	if out.Path == "" {
		if v.given("output.path") && v.config.root.Lookup("output").Value.Lookup("path").Value.Kind == document.TextKind {
			v.problem("output.path", "name the directory for the results", "output.path is empty")
		} else {
			v.missingKey("output.path", "output: {path: out/my-job}")
		}
	}
	v.checkBucketAddress("output.path", out.Path)
	if len(out.Write) == 0 {
		v.problem("output.write", "known: "+strings.Join(outputParts, ", "), "output.write names nothing to write")
	}
	seen := map[string]bool{}
	for _, part := range out.Write {
		v.oneOf("output.write", part, outputParts)
		if seen[part] {
			v.problem("output.write", "name it once", "output.write has %s twice", part)
		}
		seen[part] = true
	}
	if out.RowsPerFile < 0 || out.RowsPerFile > maxRowsPerFile {
		v.outOfBounds("output.rows_per_file", 1, maxRowsPerFile)
	}
	if out.Verify != "" {
		v.oneOf("output.verify", out.Verify, []string{VerifySize, VerifyDigest})
	}
	v.validateName()
}

// validateName checks output.name.
func (v *validator) validateName() {
	out := v.config.Output
	if out.Name == "" {
		return
	}
	if _, err := ParseName(out.Name); err != nil {
		v.problem("output.name", "see docs/names.md", "output.name: %v", err)
	}
	if strings.Contains(out.Path, "://") {
		v.problem("output.name", "leave it out, and find files by the tables' video_path",
			"output.name needs an output in a directory: a bucket has no links, and copies would double it")
	}
	if !out.Writes("video") {
		v.problem("output.name", "leave it out, or write video", "output.name names videos, and this job writes none")
	}
}

// Bounds of values of the runner.
const (
	maxSlots = 100_000
	maxWaves = 1000
)

func (v *validator) validateRunner() {
	r := v.config.Runner
	if r.Environment != "" {
		v.oneOf("runner.environment", r.Environment, []string{"process", "external", "loopback"})
	}
	for key, addr := range map[string]string{"endpoint": r.Endpoint, "pool": r.Pool} {
		if _, _, err := net.SplitHostPort(addr); addr != "" && err != nil {
			v.problem("runner."+key, "write host:port, such as localhost:8099", "runner.%s is %q", key,
				document.Clip(addr, document.ValueRunes))
		}
	}
	switch external := r.Environment == "external"; {
	case external && r.Pool == "":
		v.problem("runner.environment", "add pool: the address of `latentbeam worker --pool`, as the engine reaches it",
			"environment external needs runner.pool")
	case !external && r.Pool != "":
		v.problem("runner.pool", "write environment: external", "runner.pool is there only for environment external")
	}
	if r.Parallelism < 0 || r.Parallelism > maxSlots {
		v.outOfBounds("runner.parallelism", 1, maxSlots)
	}
	if r.Waves < 0 || r.Waves > maxWaves {
		v.outOfBounds("runner.waves", 1, maxWaves)
	}
	if r.MaxWorkers < 0 || r.MaxWorkers > maxSlots {
		v.outOfBounds("runner.max_workers", 1, maxSlots)
	}
	if at, err := url.Parse(r.Staging); r.Staging != "" && (err != nil || at.Scheme != "gs" || at.Host == "" || at.User != nil) {
		v.problem("runner.staging", "write gs://BUCKET/PREFIX", "runner.staging is %q, no prefix in a bucket of Google Cloud",
			document.Clip(r.Staging, document.ValueRunes))
	}
}

func (v *validator) validateResources() {
	r, e := v.config.Resources, v.config.OnError
	if r.Device != "" {
		v.oneOf("resources.device", r.Device, []string{"auto", "cpu", "gpu"})
	}
	if kind, name, _ := strings.Cut(r.Class, "/"); r.Class != "" && r.Class != "auto" && (kind != "cpu" && kind != "cuda" || name == "") {
		v.problem("resources.class", "write auto, or a class as `latentbeam doctor` and summary.json say it, such as cpu/avx2",
			"resources.class is %q", document.Clip(r.Class, document.ValueRunes))
	}
	if r.NCCL != "" {
		v.oneOf("resources.nccl", r.NCCL, []string{"auto", "off"})
	}
	if r.Workers < 0 || r.Workers > MaxWorkers {
		v.outOfBounds("resources.workers", 1, MaxWorkers)
	}
	if r.Workers == 0 && len(r.Hosts) == 0 {
		v.problem("resources.workers", "give 1 or more, or the workers of other hosts in resources.hosts",
			"resources.workers is 0 and there are no hosts")
	}
	if r.Threads < 0 || r.Threads > maxThreads {
		v.outOfBounds("resources.threads", 0, maxThreads)
	}
	if r.Memory != 0 && r.Memory < minMemory {
		v.problem("resources.memory", "write a size with its unit, such as 2GiB",
			"resources.memory is %d bytes, less than %d MiB", r.Memory, minMemory>>20)
	}
	for i, addr := range r.Hosts {
		if _, _, err := net.SplitHostPort(addr); err != nil {
			v.problem("resources.hosts", "write host:port, such as 10.0.0.2:7447",
				"resources.hosts[%d] is %q", i, document.Clip(addr, document.ValueRunes))
		}
	}
	if len(r.Hosts) > 0 && r.TokenFile == "" {
		v.problem("resources.hosts", "add token_file, the file that the workers were started with",
			"resources.hosts needs resources.token_file")
	}
	if e.Retries < 0 || e.Retries > maxRetries {
		v.outOfBounds("on_error.retries", 0, maxRetries)
	}
	if e.MinRows < 0 {
		v.outOfBounds("on_error.min_rows", 0, maxRowsPerFile)
	}
	if len(v.config.OnComplete) > maxHooks {
		v.problem("on_complete", "let one command call the others", "on_complete has %d entries, more than %d",
			len(v.config.OnComplete), maxHooks)
	}
	if time.Duration(v.config.DrainTimeout) > maxDrain {
		v.problem("drain_timeout", "", "drain_timeout is longer than %s", maxDrain)
	}
}

func (v *validator) outOfBounds(path string, low, high int) {
	v.problem(path, "", "%s must be a whole number from %d to %d", path, low, high)
}

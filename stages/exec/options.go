package exec

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	osexec "os/exec"
	"slices"
	"strings"
	"time"

	"latentbeam/internal/config"
	"latentbeam/schemas"
	"latentbeam/stages"
)

// options are the options of the stage in the YAML. Fields with a JSON name are part of the keys.
type options struct {
	Name    string            `yaml:"name" json:"-"` // name of the stage in messages and --set; "" is exec
	Command []string          `yaml:"command" json:"command"`
	Takes   string            `yaml:"takes" json:"takes"`
	Gives   string            `yaml:"gives" json:"gives"`
	Version config.Name       `yaml:"version" json:"version"`
	Params  []string          `yaml:"params" json:"params"`
	Env     map[string]string `yaml:"env" json:"env,omitempty"` // without secrets, see MarshalJSON

	Digest         []string        `yaml:"digest" json:"-"` // files that the results depend on; their content is part of the keys
	Secrets        []string        `yaml:"secrets" json:"-"`
	Workers        schemas.AutoInt `yaml:"workers" json:"-"`
	Devices        int             `yaml:"devices" json:"-"`
	Batch          int             `yaml:"batch" json:"-"`
	BatchInvariant bool            `yaml:"batch_invariant" json:"-"`
	Deterministic  bool            `yaml:"deterministic" json:"-"` // a row that is computed again has the same result
	Timeout        config.Duration `yaml:"timeout" json:"-"`
	StartTimeout   config.Duration `yaml:"start_timeout" json:"-"` // time until hello; 0: defaultStart, or timeout if that is less
	Heartbeat      config.Duration `yaml:"heartbeat" json:"-"`
	Memory         config.ByteSize `yaml:"memory" json:"-"`
	Scratch        string          `yaml:"scratch" json:"-"`
	Log            string          `yaml:"log" json:"-"` // file for the programs' output; "" discards it
}

// MarshalJSON writes the options that are part of the keys. How and where the program runs is not.
func (o *options) MarshalJSON() ([]byte, error) {
	type plain options
	out := plain(*o)
	out.Env = maps.Clone(o.Env)
	for _, name := range o.Secrets {
		delete(out.Env, name)
	}
	return json.Marshal(out)
}

const (
	defaultTimeout   = 30 * time.Minute
	defaultStart     = 10 * time.Minute
	defaultHeartbeat = time.Minute
	maxBatch         = 1024
)

// kinds are the kinds that a program can take or give.
var kinds = []stages.Kind{stages.KindPrompt, stages.KindText, stages.KindMedia, stages.KindLatents, stages.KindFrames,
	stages.KindVideo}

// givesReadings is the value of `gives` for a program that only measures its input.
const givesReadings = "readings"

// onlyMeasures reports whether the program only measures. Its input is passed on unchanged.
func (o *options) onlyMeasures() bool { return o.Gives == givesReadings }

// outputKind returns the kind that leaves the stage.
func (o *options) outputKind() string {
	if o.onlyMeasures() {
		return o.Takes
	}
	return o.Gives
}

// known are the columns that params may list.
var known = []stages.Param{
	stages.ParamPrompt, stages.ParamNegativePrompt, stages.ParamSeed, stages.ParamHeight, stages.ParamWidth,
	stages.ParamNumFrames, stages.ParamFPS, stages.ParamSteps, stages.ParamGuidanceScale,
	stages.ParamMaxSequenceLength, stages.ParamMedia, stages.ParamReference, stages.ParamAes, stages.ParamFlow,
	stages.ParamCameraMotion, stages.ParamNoise,
}

// promptParams are the default params of a program that takes prompts.
var promptParams = known[:9]

// read decodes and checks the options, and sets defaults.
func read(o stages.Options) (*options, error) {
	opts := &options{Devices: 1, Batch: 1, Timeout: config.Duration(defaultTimeout),
		Heartbeat: config.Duration(defaultHeartbeat), Version: "1"}
	if err := o.Into(opts); err != nil {
		return opts, err
	}
	if len(opts.Command) == 0 || opts.Command[0] == "" {
		return opts, stages.Errorf("command", "exec: command is missing: write the program and its arguments, "+
			"such as [python3, generate.py]")
	}
	if err := opts.checkKinds(); err != nil {
		return opts, err
	}
	if opts.StartTimeout == 0 {
		opts.StartTimeout = min(opts.Timeout, config.Duration(defaultStart))
	}
	if opts.Params == nil && opts.Takes == string(stages.KindPrompt) {
		for _, p := range promptParams {
			opts.Params = append(opts.Params, string(p))
		}
	}
	for i, p := range opts.Params {
		switch {
		case !slices.Contains(known, stages.Param(p)) && whyNotColumn(p) != "":
			return opts, stages.Errorf("params", "exec: params names %q; %s", p, whyNotColumn(p))
		case slices.Contains(opts.Params[:i], p):
			return opts, stages.Errorf("params", "exec: params names %q twice", p)
		}
	}
	return opts, opts.checkRun()
}

// whyNotColumn says why a name cannot be a user's own column, or "".
func whyNotColumn(name string) string {
	for _, f := range schemas.Fields() {
		switch {
		case f.Name == schemas.FieldSampleIndex: // a user's own column, as in releases before it was a field
		case slices.Contains(f.Aliases, name):
			return "write " + f.Name + ", whose other name it is"
		case f.Name == name:
			return "a program does not get that; known: " + list(known) + ", and columns of your own"
		}
	}
	return ""
}

// param returns the parameter for a name in params.
func param(name string) stages.Param {
	if slices.Contains(known, stages.Param(name)) {
		return stages.Param(name)
	}
	return stages.ColumnParam(name)
}

// checkKinds checks the options takes and gives.
func (o *options) checkKinds() error {
	for _, k := range []struct{ key, value string }{{"takes", o.Takes}, {"gives", o.Gives}} {
		switch {
		case k.key == "gives" && o.onlyMeasures():
			if o.Takes != string(stages.KindVideo) && o.Takes != string(stages.KindMedia) {
				return stages.Errorf(k.key, "exec: gives is readings and takes is %s: readings are of video or media", o.Takes)
			}
		case k.value == "":
			return stages.Errorf(k.key, "exec: %s is missing: write one of %s", k.key, kindsOf(k.key))
		case !slices.Contains(kinds, stages.Kind(k.value)):
			return stages.Errorf(k.key, "exec: %s is %q; known: %s", k.key, k.value, kindsOf(k.key))
		}
	}
	return nil
}

// kindsOf lists the values of takes or gives.
func kindsOf(key string) string {
	if key == "gives" {
		return list(kinds) + ", " + givesReadings
	}
	return list(kinds)
}

// checkRun checks the options about running the program.
func (o *options) checkRun() error {
	switch {
	case o.Devices < 1 || o.Devices > config.MaxWorkers:
		return stages.Errorf("devices", "exec: devices is %d: give 1 to %d", o.Devices, config.MaxWorkers)
	case o.Batch < 1 || o.Batch > maxBatch:
		return stages.Errorf("batch", "exec: batch is %d: give 1 to %d rows", o.Batch, maxBatch)
	case o.Batch > 1 && !o.BatchInvariant:
		return stages.Errorf("batch", "exec: batch is %d, but the program may then give other results than for a row alone; "+
			"where it does not, write batch_invariant: true", o.Batch)
	case o.Timeout <= 0:
		return stages.Errorf("timeout", "exec: timeout must be more than 0")
	case o.Heartbeat <= 0:
		return stages.Errorf("heartbeat", "exec: heartbeat must be more than 0")
	}
	for name := range o.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			return stages.Errorf("env", "exec: env has the name %q, which no variable can have", name)
		}
	}
	for _, name := range o.Secrets {
		if _, given := o.Env[name]; !given && os.Getenv(name) == "" {
			return stages.Errorf("secrets", "exec: the secret %s is not set: export %s before the run", name, name)
		}
	}
	return nil
}

// checkCommand returns an error if the command's program cannot be started on this host.
func (o *options) checkCommand() error {
	if err := supported(); err != nil {
		return fmt.Errorf("exec: %w", err)
	}
	if _, err := osexec.LookPath(o.Command[0]); err != nil {
		return stages.Errorf("command", "exec: %v", err)
	}
	return nil
}

// label returns the name of the stage for messages.
func (o *options) label() string {
	if o.Name != "" {
		return o.Name
	}
	return stageName
}

// environment returns the program's environment without the variables that the stage sets.
func (o *options) environment() []string {
	env := os.Environ()
	for _, name := range slices.Sorted(maps.Keys(o.Env)) {
		env = append(env, name+"="+o.Env[name])
	}
	return env
}

// hide returns a replacer that removes the secrets from a text.
func (o *options) hide() *strings.Replacer {
	var pairs []string
	for _, name := range o.Secrets {
		value, given := o.Env[name]
		if !given {
			value = os.Getenv(name)
		}
		if value != "" {
			pairs = append(pairs, value, "***")
		}
	}
	return strings.NewReplacer(pairs...)
}

func list[T ~string](values []T) string {
	var all []string
	for _, v := range values {
		all = append(all, fmt.Sprint(v))
	}
	return strings.Join(all, ", ")
}

package reference

import (
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"latentbeam/internal/cli"
	"latentbeam/internal/config"
	"latentbeam/internal/watch/metrics"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
	"latentbeam/stages/catalog"
	"latentbeam/stages/diffuse/dit"
	"latentbeam/testdata/tiny"
)

const (
	root = "../../.."
	page = root + "/docs/reference.md"
)

// TestReference: docs/reference.md equals the page that is made from the code. REFERENCE=write writes it.
func TestReference(t *testing.T) {
	b := &book{t: t, comments: newComments(root)}
	b.all()
	if os.Getenv("REFERENCE") == "write" {
		if err := os.WriteFile(page, []byte(b.text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != b.text.String() {
		t.Errorf("docs/reference.md is not what the code says: run `make reference`%s", firstDifference(string(have), b.text.String()))
	}
}

// firstDifference returns the first line in which two texts differ.
func firstDifference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return fmt.Sprintf("\nline %d\n- %s\n+ %s", i+1, x[i], y[i])
		}
	}
	return ""
}

// book is docs/reference.md while it is written.
type book struct {
	t        *testing.T
	comments *comments
	text     strings.Builder
}

// say writes a line.
func (b *book) say(format string, args ...any) { fmt.Fprintf(&b.text, format+"\n", args...) }

// all writes the whole page.
func (b *book) all() {
	b.say("# Reference\n")
	b.say("Made from the code by `make reference`; a test compares. [README.md](../README.md) is the place to begin.\n")
	b.say("[Keys of a job](#keys-of-a-job) · [Stages](#stages) · [Columns of a prompt table](#columns-of-a-prompt-table) · " +
		"[Tables](#tables) · [Exit codes](#exit-codes) · [Metrics](#metrics) · [Verbs](#verbs)\n")
	b.job()
	b.stages()
	b.columns()
	b.tables()
	b.exits()
	b.metrics()
	b.verbs()
}

// job writes the keys of a job with their defaults.
func (b *book) job() {
	b.say("## Keys of a job\n")
	b.say("What the rows and the job leave open, the preset says, then the model.\n")
	cfg, err := config.Parse("job.yaml", "version: 1\nmodel: tiny\ninput: {prompts: x}\nstages: [encode_text]\noutput: {path: x}\n", nil)
	if err != nil {
		b.t.Fatal(err)
	}
	b.say("| key | default | what it says |\n|---|---|---|")
	v := reflect.ValueOf(cfg).Elem()
	b.keys(v, "", map[string]bool{"version": true, "model": true, "input.prompts": true, "stages": true, "output.path": true})
	b.say("")
}

// keys writes the keys of a struct and of the structs inside it. required keys have no default.
func (b *book) keys(v reflect.Value, path string, required map[string]bool) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if name == "" || name == "-" {
			continue
		}
		doc := b.key(v.Type(), f)
		value, byDefault := v.Field(i), ""
		nested := f.Type.Kind() == reflect.Struct && f.Type.PkgPath() == v.Type().PkgPath() && hasKeys(f.Type)
		if !required[path+name] && !value.IsZero() && !nested {
			byDefault = "`" + shown(value) + "`"
		}
		b.say("| `%s` | %s | %s |", path+name, byDefault, doc)
		if nested {
			b.keys(value, path+name+".", required)
		}
	}
}

// key returns the comment of a field that is a key of a job. Names of fields are replaced by their keys.
func (b *book) key(t reflect.Type, f reflect.StructField) string {
	doc, err := b.comments.field(t, f.Name)
	if err != nil {
		b.t.Error(err)
	}
	if doc == "" {
		if doc = seeBefore(b, t, f); doc == "" {
			b.t.Errorf("%s.%s: a key of a job needs a comment: it is its documentation", t, f.Name)
		}
		return doc
	}
	for _, verb := range []string{" is ", " are "} {
		if rest, ok := strings.CutPrefix(doc, f.Name+verb); ok {
			doc = rest
		}
	}
	for i := range t.NumField() {
		if key, _, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ","); key != "" && key != "-" {
			doc = regexp.MustCompile(`\b`+t.Field(i).Name+`\b`).ReplaceAllString(doc, "`"+key+"`")
		}
	}
	return doc
}

// seeBefore returns the text for a field without a comment: it refers to the field before it.
func seeBefore(b *book, t reflect.Type, f reflect.StructField) string {
	for i := f.Index[0] - 1; i >= 0; i-- {
		before := t.Field(i)
		doc, err := b.comments.field(t, before.Name)
		if err != nil || doc == "" {
			continue
		}
		if regexp.MustCompile(`\b` + f.Name + `\b`).MatchString(doc) {
			key, _, _ := strings.Cut(before.Tag.Get("yaml"), ",")
			return "see `" + key + "`"
		}
		break
	}
	return ""
}

// hasKeys reports whether a struct has fields that are keys of a job.
func hasKeys(t reflect.Type) bool {
	for i := range t.NumField() {
		if t.Field(i).Tag.Get("yaml") != "" {
			return true
		}
	}
	return false
}

// shown formats a value as in a job file.
func shown(v reflect.Value) string {
	if m, ok := v.Interface().(interface{ MarshalJSON() ([]byte, error) }); ok {
		text, _ := m.MarshalJSON()
		return strings.Trim(string(text), `"`)
	}
	if v.Kind() == reflect.Struct && v.NumField() > 0 {
		return shown(v.Field(0))
	}
	return fmt.Sprint(v.Interface())
}

// stages writes the stages and their options.
func (b *book) stages() {
	b.say("## Stages\n")
	b.say("| stage | takes | gives | what it does |\n|---|---|---|---|")
	for _, s := range catalog.All() {
		in, out := string(s.In), string(s.Out)
		if s.Of != nil {
			in, out = "what `takes` says", "what `gives` says"
		} else if in == "" {
			in, out = "any", "the same"
		}
		b.say("| `%s` | %s | %s | %s |", s.Name, in, out, strings.ReplaceAll(s.Doc, "|", "\\|"))
	}
	b.say("")
	for _, s := range catalog.All() {
		if s.Name == "exec" {
			b.say("### `exec`\n\n[exec.md](exec.md) has its options.\n")
			continue
		}
		if t := b.options(s); t != nil {
			b.say("### `%s`\n", s.Name)
			b.say("| option | what it says |\n|---|---|")
			b.fields(t, s.Approximations, map[string]bool{})
			b.say("")
		}
	}
}

// errSeen ends the opening of a stage, once it has shown into which type it decodes its options.
var errSeen = errors.New("seen")

// options returns the types into which a stage decodes its options, including the types of all families of denoisers.
func (b *book) options(s stages.Spec) (found []reflect.Type) {
	see := func(target any) error {
		found = append(found, reflect.TypeOf(target).Elem())
		return errSeen
	}
	if s.Name == "denoise" {
		for _, f := range catalog.Denoisers() {
			for _, class := range classes {
				config := []byte(`{"_class_name": "` + class + `", "model_type": "` + class + `"}`)
				_, _ = f.Open(dit.Configs{Config: config}, see)
			}
		}
	}
	model, err := stages.EmbeddedModel("tiny", tiny.Files())
	if err != nil {
		b.t.Fatal(err)
	}
	if s.Of != nil {
		_, _ = s.Of(see)
	} else {
		_, _ = s.New(model, see)
	}
	return found
}

// classes are the names of networks that identify the families.
var classes = []string{"WanTransformer3DModel", "STDiT", "STDiT2", "STDiT3"}

// fields writes the options of structs, each once.
func (b *book) fields(all []reflect.Type, approximations []stages.Approximation, written map[string]bool) {
	for _, t := range all {
		for i := range t.NumField() {
			f := t.Field(i)
			if f.Anonymous {
				b.fields([]reflect.Type{f.Type}, approximations, written)
				continue
			}
			name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
			if name == "" || name == "-" || written[name] {
				continue
			}
			written[name] = true
			b.say("| `%s` | %s%s |", name, b.key(t, f), losses(name, approximations))
		}
	}
}

// losses describes how much quality the approximations of an option lose.
func losses(option string, all []stages.Approximation) (text string) {
	for _, a := range all {
		if key, _, _ := strings.Cut(a.Option, "."); key != option {
			continue
		}
		mark := ""
		if a.Experimental() {
			mark = "**experimental**, "
		}
		file, _, _ := strings.Cut(a.Page, "#")
		text += fmt.Sprintf(" `%s`: %s%s ([%s](%s)).", a.Key(), mark, a.Loss(), file, a.Page)
	}
	return text
}

// TestLosses: the loss that an approximation states is in a table of the page that it names.
func TestLosses(t *testing.T) {
	for _, s := range catalog.All() {
		for _, a := range s.Approximations {
			file, _, _ := strings.Cut(a.Page, "#")
			page, err := os.ReadFile(root + "/docs/" + file)
			if err != nil {
				t.Error(err)
				continue
			}
			if a.Of == 0 {
				continue
			}
			row := false
			for line := range strings.Lines(string(page)) {
				row = row || strings.HasPrefix(line, "|") && strings.Contains(line, fmt.Sprintf("| %d", a.Kept)) && settingsIn(line, a)
			}
			if !row {
				t.Errorf("no table of %s has a row with %s", file, a.Loss())
			}
		}
	}
}

// settingsIn reports whether a row of a table belongs to the measurement.
func settingsIn(line string, a stages.Approximation) bool {
	for _, n := range regexp.MustCompile(`[0-9.]+`).FindAllString(a.With, -1) {
		if !strings.Contains(line, n) {
			return false
		}
	}
	return true
}

// columns writes the columns of prompt tables.
func (b *book) columns() {
	b.say("## Columns of a prompt table\n")
	b.say("Each of them, but for `id`, `prompt`, `sample_index` and the columns of media, is a key of `defaults` too. All other columns are carried to " +
		"the tables of the output. Names of other tools count where a stage of the job depends on the parameter, and give way to a " +
		"name of ours.\n")
	b.say("| column | other names | names of other tools | values |\n|---|---|---|---|")
	for _, f := range schemas.Fields() {
		kind := map[schemas.Kind]string{schemas.Text: "text", schemas.Integer: "whole number", schemas.Real: "number"}[f.Kind]
		limits := f.Range()
		if f.Kind == schemas.Text {
			limits = fmt.Sprintf("at most %d bytes", int64(f.Max))
		}
		b.say("| `%s` | %s | %s | %s, %s |", f.Name, strings.Join(f.Aliases, ", "), toolNames(f.Name), kind, limits)
	}
	b.say("| `%s` |  | `832*480` of Wan | both sides, width first, as in 832x480 |\n", schemas.FieldSize)
	b.say("These names of other tools are no columns here, and a run says so:\n")
	b.say("| name | of | what to do |\n|---|---|---|")
	for _, t := range schemas.ToolNames() {
		if t.Field == "" {
			b.say("| `%s` | %s | %s |", t.Name, t.Tools, t.Advice)
		}
	}
	b.say("")
}

// toolNames returns the names of other tools for a field.
func toolNames(field string) string {
	var all []string
	for _, t := range schemas.ToolNames() {
		if t.Field == field {
			all = append(all, fmt.Sprintf("%s (%s)", t.Name, t.Tools))
		}
	}
	return strings.Join(all, ", ")
}

// tables writes the columns of the tables of an output.
func (b *book) tables() {
	b.say("## Tables\n")
	b.say("Parquet files in the output: `tables/videos/00000.parquet` and so on, a folder for each table.\n")
	for _, row := range []schemas.Row{schemas.VideoRow{}, schemas.LatentRow{}, schemas.ClipLatentRow{},
		schemas.EmbeddingRow{}, schemas.FailureRow{}} {
		t := reflect.TypeOf(row)
		title := "`" + row.Schema() + "`"
		if t.NumField() > 0 && t.Field(0).Anonymous {
			title += ", more columns"
		}
		b.say("### %s\n", title)
		types, err := b.comments.load(t.PkgPath())
		if err != nil {
			b.t.Fatal(err)
		}
		b.say("%s\n", b.comments.docs[types[t.Name()]])
		b.say("| column | type | what it says |\n|---|---|---|")
		b.rows(t)
		b.say("")
	}
}

// rows writes the columns of a row type.
func (b *book) rows(t reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("parquet"), ",")
		if name == "" || name == "-" {
			continue
		}
		doc, err := b.comments.field(t, f.Name)
		if err != nil {
			b.t.Error(err)
		}
		b.say("| `%s` | %s | %s |", name, strings.TrimPrefix(f.Type.String(), "*"), doc)
	}
}

// exits writes the exit codes.
func (b *book) exits() {
	b.say("## Exit codes\n")
	b.say("| code | when |\n|---|---|")
	for _, e := range []struct {
		code int
		when string
	}{
		{fault.ExitDone, "every row is done"},
		{fault.ExitFailures, "the job is done, and rows failed: see the failures table"},
		{fault.ExitUsage, "the command line, the job file or an input is wrong; nothing was done"},
		{fault.ExitFatal, "the job stopped"},
		{fault.ExitTryAgain, "run it again later: the disk is full, no device is free, the output is in use"},
		{fault.ExitInterrupted, "SIGINT or SIGTERM, after what was at work had been finished"},
	} {
		b.say("| %d | %s |", e.code, e.when)
	}
	b.say("")
}

// metrics writes the metrics for Prometheus.
func (b *book) metrics() {
	b.say("## Metrics\n")
	b.say("[Watching a job](watch.md#prometheus) says where they are.\n")
	b.say("| metric | kind | labels | meaning |\n|---|---|---|---|")
	for _, d := range metrics.Descriptions() {
		b.say("| `%s` | %s | %s | %s |", d.Name, d.Kind, strings.Join(d.Labels, ", "), strings.TrimSuffix(d.Help, "."))
	}
	b.say("")
}

// verb matches the name of a verb in the list of the program's help.
var verb = regexp.MustCompile(`(?m)^  ([a-z]+) {2,}`)

// verbs writes the help of each verb.
func (b *book) verbs() {
	b.say("## Verbs\n")
	_, list, _ := strings.Cut(b.help("help"), "Available Commands:")
	list, _, _ = strings.Cut(list, "Flags:")
	for _, m := range verb.FindAllStringSubmatch(list, -1) {
		if m[1] == "help" {
			continue
		}
		b.say("### `latentbeam %s`\n\n```\n%s\n```\n", m[1], strings.TrimSpace(b.help(m[1], "--help")))
	}
}

// help runs the program in this process and returns what it prints.
func (b *book) help(args ...string) string {
	in, out, err := os.Pipe()
	if err != nil {
		b.t.Fatal(err)
	}
	stdout, before := os.Stdout, os.Args
	os.Stdout, os.Args = out, append([]string{"latentbeam"}, args...)
	done := make(chan string)
	go func() {
		text, _ := io.ReadAll(in)
		done <- string(text)
	}()
	cli.Main(catalog.All())
	out.Close()
	os.Stdout, os.Args = stdout, before
	return <-done
}

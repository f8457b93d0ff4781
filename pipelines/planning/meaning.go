package planning

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"latentbeam/internal/config"
	"latentbeam/internal/engine/host"
	"latentbeam/internal/storage/ledger"
	"latentbeam/internal/table/read"
	"latentbeam/internal/watch/progress"
	"latentbeam/pipelines/input"
	"latentbeam/pipelines/jobfile"
	"latentbeam/schemas"
	"latentbeam/stages"
)

// meaning is a part of a job that earlier releases interpreted differently. Keys depend on the interpretation, so rows that were
// done with the earlier meaning would be computed again. A run does this only with the user's consent.
type meaning struct {
	about   string               // what has changed: "a column image gives the reference"
	keep    string               // setting that restores the earlier meaning, for the user
	restore func(*input.Reading) // applies this setting to a reading
}

// meanings finds rows that are new only because earlier releases interpreted the job differently.
type meanings struct {
	config *config.Config
	start  jobfile.Start
	specs  []stages.Spec
	input  *input.Input
	rows   input.Rows
	ledger *ledger.Ledger // ledger of the output; nil: none
	opened []*host.Stages // stages that were opened for other readings
}

// all lists the changed meanings that affect the job. To add a change of meaning, add a function here that returns false for jobs
// that it does not affect. done is the number of finished rows of the job.
func (m *meanings) all(done int64) (all []meaning) {
	for _, of := range []func() (meaning, bool){m.column, m.ratio, m.sample, m.folder, func() (meaning, bool) { return m.posterior(done) }} {
		if one, concerned := of(); concerned {
			all = append(all, one)
		}
	}
	return all
}

// close closes the stages that were opened for other readings.
func (m *meanings) close() {
	for _, h := range m.opened {
		h.Close()
	}
}

// column is about columns that earlier releases carried and this release uses, or the reverse.
func (m *meanings) column() (meaning, bool) {
	var aliases, ofSource []string
	columns := maps.Clone(m.config.Input.Columns)
	if columns == nil {
		columns = map[string]string{}
	}
	for _, use := range m.input.Columns() {
		switch {
		case use.Folder && (use.Purpose == read.Alias || use.Purpose == read.Parameter) && use.Field != schemas.FieldSize:
			aliases = append(aliases, use.Column+" of the folders' names gives "+use.Field)
			columns[use.Field] = ""
		case use.Purpose == read.Alias && use.Field == schemas.FieldSize:
			aliases = append(aliases, use.Column+" gives height and width")
			columns["height"], columns["width"] = "", ""
		case use.Purpose == read.Alias:
			aliases = append(aliases, use.Column+" gives "+use.Field)
			columns[use.Field] = ""
		case use.Purpose == read.OfSource && read.IsOurs(use.Column): // others were carried before, too
			ofSource = append(ofSource, use.Column)
			columns[use.Field] = use.Column
		}
	}
	var about []string
	if len(aliases) > 0 {
		about = append(about, "of the columns, "+strings.Join(aliases, ", "))
	}
	if len(ofSource) > 0 {
		about = append(about, "these columns describe the source and not the clips: "+strings.Join(ofSource, ", "))
	}
	if len(about) == 0 {
		return meaning{}, false
	}
	var pairs []string
	for _, field := range slices.Sorted(maps.Keys(columns)) {
		pairs = append(pairs, fmt.Sprintf("%s: %q", field, columns[field]))
	}
	return meaning{about: strings.Join(about, "; "), keep: "columns: {" + strings.Join(pairs, ", ") + "} (under input)",
		restore: func(r *input.Reading) { r.Input.Columns = columns }}, true
}

// sample is about a column sample_index, which earlier releases only carried. So rows from the tables of an output always
// produced the first sample.
func (m *meanings) sample() (meaning, bool) {
	if !slices.ContainsFunc(m.input.Columns(), func(u read.Use) bool { return u.Purpose == read.Parameter && u.Field == schemas.FieldSampleIndex }) {
		return meaning{}, false
	}
	return meaning{about: "the column sample_index asks for that video of a row, not for the first",
		keep: `columns: {sample_index: ""} (under input)`,
		restore: func(r *input.Reading) {
			r.Input.Columns = maps.Clone(r.Input.Columns)
			if r.Input.Columns == nil {
				r.Input.Columns = map[string]string{}
			}
			r.Input.Columns[schemas.FieldSampleIndex] = ""
		}}, true
}

// folder is about folders of images and other media, which earlier releases read as one clip of the images.
func (m *meanings) folder() (meaning, bool) {
	folder := m.input.MixedFolder()
	return meaning{about: fmt.Sprintf("the folder %s holds a video or a folder of media, so it stands for all media in it, not for one clip of "+
		"its images", folder),
		keep:    "folders: clip (under input)",
		restore: func(r *input.Reading) { r.Input.Folders = config.FoldersClip }}, folder != ""
}

// ratio is about names of sizes, which earlier releases interpreted like Open-Sora for all models.
func (m *meanings) ratio() (meaning, bool) {
	naming, d := m.input.Reading().Naming, m.input.Reading().Defaults
	inTable := slices.ContainsFunc(m.input.Columns(), func(u read.Use) bool {
		return u.Purpose == read.Parameter && (u.Field == "aspect_ratio" || u.Field == "resolution")
	})
	if naming != nil && naming.HeightFirst || d.Resolution == "" && d.AspectRatio == "" && !inTable {
		return meaning{}, false
	}
	other := meaning{about: "an aspect_ratio is width:height for this model, and sizes by name are those of its family",
		keep:    "write the aspect_ratio of the table's rows the other way round, as 9:16 for 16:9, or height and width",
		restore: func(r *input.Reading) { r.Naming = schemas.OpenSora }}
	if h, w, err := schemas.OpenSora.Size(d.Resolution, d.AspectRatio); err == nil {
		other.keep = fmt.Sprintf("height: %d and width: %d in place of resolution and aspect_ratio (under defaults)", h, w)
		if a, b, named := strings.Cut(d.AspectRatio, ":"); named {
			turned := b + ":" + a
			if nh, nw, err := naming.Size(d.Resolution, turned); err == nil && nh == h && nw == w {
				other.keep = fmt.Sprintf("aspect_ratio: %q (under defaults)", turned)
			}
		}
	}
	return other, true
}

// posterior is about encode_vae without the option posterior: earlier releases drew a sample. If the output has finished rows of
// the job, it was made with the mean.
func (m *meanings) posterior(done int64) (meaning, bool) {
	const name = "encode_vae"
	silent := slices.ContainsFunc(m.config.Stages, func(s config.Stage) bool { return s.Name == name && !s.Options.Has("posterior") })
	if !silent || done > 0 || m.start.YAML == "" {
		return meaning{}, false
	}
	restore := func(r *input.Reading) {
		cfg, err := m.start.Config("stages." + name + ".posterior=sample")
		if err != nil {
			return // no rows are found then
		}
		h, err := host.Open(cfg, m.specs)
		if err != nil {
			return
		}
		m.opened = append(m.opened, h)
		r.Steps = h.Steps
	}
	return meaning{about: "encode_vae takes the mean of the posterior where the job does not say it, and drew a sample",
		keep: "posterior: sample (under encode_vae)", restore: restore}, true
}

// changed describes the rows of a plan that were done with earlier meanings, and how to keep their results.
type changed struct {
	rows        int64
	about, keep []string
}

// String formats the message for the user; "": no rows.
func (c changed) String() string {
	if c.rows == 0 {
		return ""
	}
	return fmt.Sprintf("%s would be new because this release reads the job in another way than the release that made the output: %s; "+
		"this line of the job keeps them: %s", progress.Rows(c.rows), strings.Join(c.about, "; "), strings.Join(c.keep, "; "))
}

// changed finds the rows that are new only because of changed meanings. It tries all earlier meanings together, then all
// but one, and so on. It leaves out meanings that keep no rows.
func (m *meanings) changed(ctx context.Context, p Plan) (changed, error) {
	if p.New == 0 || m.ledger == nil || m.ledger.Len() == 0 {
		return changed{}, nil
	}
	defer m.close()
	for _, set := range subsets(m.all(p.Done)) {
		rows, err := m.doneAs(ctx, set)
		if err != nil {
			return changed{}, err
		}
		if rows > 0 {
			return m.needed(ctx, set, rows)
		}
	}
	return changed{}, nil
}

// subsets returns all non-empty subsets of a list, the largest first.
func subsets(all []meaning) (sets [][]meaning) {
	for mask := range 1 << len(all) {
		var set []meaning
		for i, m := range all {
			if mask>>i&1 == 1 {
				set = append(set, m)
			}
		}
		if len(set) > 0 {
			sets = append(sets, set)
		}
	}
	slices.SortStableFunc(sets, func(a, b []meaning) int { return len(b) - len(a) })
	return sets
}

// needed removes meanings from a set that are not needed to keep its rows.
func (m *meanings) needed(ctx context.Context, set []meaning, rows int64) (changed, error) {
	for i := 0; i < len(set) && len(set) > 1; {
		without := slices.Concat(set[:i], set[i+1:])
		n, err := m.doneAs(ctx, without)
		if err != nil {
			return changed{}, err
		}
		if n < rows {
			i++
			continue
		}
		set = without
	}
	c := changed{rows: rows}
	for _, one := range set {
		c.about, c.keep = append(c.about, one.about), append(c.keep, one.keep)
	}
	return c, nil
}

// doneAs counts the new rows that the output has under the restored meanings. Both readings yield the rows of one place of the input
// consecutively, so doneAs compares them place by place.
func (m *meanings) doneAs(ctx context.Context, restored []meaning) (n int64, err error) {
	reading := m.input.Reading()
	for _, one := range restored {
		one.restore(&reading)
	}
	source, err := m.input.As(reading).Open(true)
	if err != nil {
		return 0, nil //nolint:nilerr // an input that cannot be read in this way has produced no output
	}
	rules := *m.rows.Rules
	rules.Defaults, rules.Naming = reading.Defaults, reading.Naming
	if reading.Steps != nil {
		rules.Steps = reading.Steps
		if err := rules.Seal(); err != nil {
			return 0, err
		}
	}
	earlier, stop := iter.Pull2(places(input.Rows{Source: source, Rules: &rules}.All(ctx)))
	defer stop()
	settled := m.ledger.Cursor()
	defer settled.Close()
	count := func(of []*stages.Element, want ledger.Status) (n int64, err error) {
		for _, e := range of {
			if e.Failed != nil {
				continue
			}
			status, err := settled.Status(ledger.Key(e.Key))
			if err != nil {
				return 0, err
			}
			if status == want {
				n++
			}
		}
		return n, nil
	}
	for now, err := range places(m.rows.All(ctx)) {
		before, beforeErr, more := earlier()
		if err != nil || beforeErr != nil || !more {
			return n, err
		}
		fresh, err := count(now, ledger.Absent)
		if err != nil {
			return n, err
		}
		if fresh == 0 {
			continue
		}
		done, err := count(before, ledger.Done)
		if err != nil {
			return n, err
		}
		n += min(fresh, done)
	}
	return n, nil
}

// places groups consecutive elements by their place in the input.
func places(elements iter.Seq2[*stages.Element, error]) iter.Seq2[[]*stages.Element, error] {
	return func(yield func([]*stages.Element, error) bool) {
		var at []*stages.Element
		for e, err := range elements {
			if err != nil {
				yield(nil, err)
				return
			}
			if len(at) > 0 && at[0].Given.Source != e.Given.Source {
				if !yield(at, nil) {
					return
				}
				at = nil
			}
			at = append(at, e)
		}
		if len(at) > 0 {
			yield(at, nil)
		}
	}
}

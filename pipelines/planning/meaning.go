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

// meaning is a part of a job that earlier releases read otherwise. Keys follow from what is read, so rows that were done
// under the earlier meaning would be new. The run asks first.
type meaning struct {
	about   string               // what has changed: "a column image gives the reference"
	keep    string               // the line of the job under which it is read as before
	restore func(*input.Reading) // makes a reading that of the line
}

// meanings finds the rows of a job that are new only because earlier releases read it otherwise.
type meanings struct {
	config *config.Config
	start  jobfile.Start
	specs  []stages.Spec
	input  *input.Input
	rows   input.Rows
	ledger *ledger.Ledger // of the output; nil: it has none
	opened []*host.Stages // for other readings
}

// all lists what has changed. A change to come is a function here, which returns false for jobs that it does not concern; done is
// how many rows the output has.
func (m *meanings) all(done int64) (all []meaning) {
	for _, of := range []func() (meaning, bool){m.column, m.ratio, m.sample, m.folder, func() (meaning, bool) { return m.posterior(done) }} {
		if one, concerned := of(); concerned {
			all = append(all, one)
		}
	}
	return all
}

// close closes what was opened for other readings.
func (m *meanings) close() {
	for _, h := range m.opened {
		h.Close()
	}
}

// column is about columns that earlier releases carried and this one takes, or the reverse.
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

// sample is about a column sample_index, which earlier releases carried: rows that were chosen from the tables of an output
// gave its first sample.
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

// folder is about folders of images and other media, which earlier releases took for one clip of their images.
func (m *meanings) folder() (meaning, bool) {
	folder := m.input.MixedFolder()
	return meaning{about: fmt.Sprintf("the folder %s holds a video or a folder of media, so it stands for all media in it, not for one clip of "+
		"its images", folder),
		keep:    "folders: clip (under input)",
		restore: func(r *input.Reading) { r.Input.Folders = config.FoldersClip }}, folder != ""
}

// ratio is about sizes by name: earlier releases read them as Open-Sora does, for all models.
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

// posterior is about encode_vae where the job does not say its posterior: earlier releases drew a sample. An output that
// has rows of the job was made with the mean.
func (m *meanings) posterior(done int64) (meaning, bool) {
	const name = "encode_vae"
	silent := slices.ContainsFunc(m.config.Stages, func(s config.Stage) bool { return s.Name == name && !s.Options.Has("posterior") })
	if !silent || done > 0 || m.start.YAML == "" {
		return meaning{}, false
	}
	restore := func(r *input.Reading) {
		cfg, err := m.start.Config("stages." + name + ".posterior=sample")
		if err != nil {
			return // nothing is found then
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

// changed says which rows of a plan were done under earlier meanings, and how to keep them.
type changed struct {
	rows        int64
	about, keep []string
}

// String is what a person is told; "" for no rows.
func (c changed) String() string {
	if c.rows == 0 {
		return ""
	}
	return fmt.Sprintf("%s would be new because this release reads the job otherwise than the output was made: %s; "+
		"this line of the job keeps them: %s", progress.Rows(c.rows), strings.Join(c.about, "; "), strings.Join(c.keep, "; "))
}

// changed finds the rows that are new only because they are read otherwise: under all earlier meanings, under all but
// one, and so on. A meaning that keeps no row is not told.
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

// subsets are the choices of at least one of a list, those of most first.
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

// needed leaves out the meanings of a set without which as many rows are kept.
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

// doneAs counts the new rows whose earlier meaning the output has done. Both readings give the rows of a place in the input
// one after the other, so they are compared place by place.
func (m *meanings) doneAs(ctx context.Context, restored []meaning) (n int64, err error) {
	reading := m.input.Reading()
	for _, one := range restored {
		one.restore(&reading)
	}
	source, err := m.input.As(reading).Open(true)
	if err != nil {
		return 0, nil //nolint:nilerr // what cannot be read in this way made no output
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

// places gathers the elements of each place of the input.
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

package pipelines

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"latentbeam/internal/config"
	"latentbeam/internal/engine"
	"latentbeam/internal/engine/host"
	"latentbeam/internal/engine/keys"
	"latentbeam/internal/storage/ledger"
	"latentbeam/internal/table/read"
	"latentbeam/internal/watch/progress"
	"latentbeam/pipelines/input"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// meaning is a part of a job that earlier releases read otherwise. Keys follow from what is read, so rows that were done
// under the earlier meaning would be new. The run asks first.
type meaning struct {
	about   string               // what has changed: "a column image gives the reference"
	keep    string               // the line of the job under which it is read as before
	restore func(*input.Reading) // makes a reading that of the line
}

// meanings lists what has changed. A change to come is a function here, which returns false for jobs that it does not concern.
var meanings = []func(*Job, Plan) (meaning, bool){(*Job).columnMeaning, (*Job).ratioMeaning, (*Job).sampleMeaning, (*Job).folderMeaning, (*Job).posteriorMeaning}

// columnMeaning is about columns that earlier releases carried and this one takes, or the reverse.
func (j *Job) columnMeaning(Plan) (meaning, bool) {
	var aliases, ofSource []string
	columns := maps.Clone(j.Config.Input.Columns)
	if columns == nil {
		columns = map[string]string{}
	}
	for _, use := range j.input.Columns() {
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

// sampleMeaning is about a column sample_index, which earlier releases carried: rows that were chosen from the tables of an output
// gave its first sample.
func (j *Job) sampleMeaning(Plan) (meaning, bool) {
	if !slices.ContainsFunc(j.input.Columns(), func(u read.Use) bool { return u.Purpose == read.Parameter && u.Field == schemas.FieldSampleIndex }) {
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

// folderMeaning is about folders of images and other media, which earlier releases took for one clip of their images.
func (j *Job) folderMeaning(Plan) (meaning, bool) {
	folder := j.input.MixedFolder()
	return meaning{about: fmt.Sprintf("the folder %s holds a video or a folder of media, so it stands for all media in it, not for one clip of "+
		"its images", folder),
		keep:    "folders: clip (under input)",
		restore: func(r *input.Reading) { r.Input.Folders = config.FoldersClip }}, folder != ""
}

// ratioMeaning is about sizes by name: earlier releases read them as Open-Sora does, for all models.
func (j *Job) ratioMeaning(Plan) (meaning, bool) {
	naming, d := j.input.Reading().Naming, j.input.Reading().Defaults
	inTable := slices.ContainsFunc(j.input.Columns(), func(u read.Use) bool {
		return u.Purpose == read.Parameter && (u.Field == "aspect_ratio" || u.Field == "resolution")
	})
	if naming != nil && naming.HeightFirst || d.Resolution == "" && d.AspectRatio == "" && !inTable {
		return meaning{}, false
	}
	m := meaning{about: "an aspect_ratio is width:height for this model, and sizes by name are those of its family",
		keep:    "write the aspect_ratio of the table's rows the other way round, as 9:16 for 16:9, or height and width",
		restore: func(r *input.Reading) { r.Naming = schemas.OpenSora }}
	if h, w, err := schemas.OpenSora.Size(d.Resolution, d.AspectRatio); err == nil {
		m.keep = fmt.Sprintf("height: %d and width: %d in place of resolution and aspect_ratio (under defaults)", h, w)
		if a, b, named := strings.Cut(d.AspectRatio, ":"); named {
			other := b + ":" + a
			if nh, nw, err := naming.Size(d.Resolution, other); err == nil && nh == h && nw == w {
				m.keep = fmt.Sprintf("aspect_ratio: %q (under defaults)", other)
			}
		}
	}
	return m, true
}

// posteriorMeaning is about encode_vae where the job does not say its posterior: earlier releases drew a sample. An output that
// has rows of the job was made with the mean.
func (j *Job) posteriorMeaning(p Plan) (meaning, bool) {
	const name = "encode_vae"
	silent := slices.ContainsFunc(j.Config.Stages, func(s config.Stage) bool { return s.Name == name && !s.Options.Has("posterior") })
	if !silent || p.Done > 0 || j.Opts.Start.YAML == "" {
		return meaning{}, false
	}
	restore := func(r *input.Reading) {
		cfg, err := j.Opts.Start.Config("stages." + name + ".posterior=sample")
		if err != nil {
			return // nothing is found then
		}
		h, err := host.Open(cfg, j.Opts.Specs)
		if err != nil {
			return
		}
		j.close = append(j.close, h.Close)
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

// changedMeanings finds the rows that are new only because they are read otherwise: under all earlier meanings, under all but
// one, and so on. A meaning that keeps no row is not told.
func (j *Job) changedMeanings(ctx context.Context, p Plan) (changed, error) {
	if p.New == 0 || j.engine.Ledger == nil || j.engine.Ledger.Len() == 0 || j.input == nil {
		return changed{}, nil
	}
	var all []meaning
	for _, of := range meanings {
		if m, concerned := of(j, p); concerned {
			all = append(all, m)
		}
	}
	for _, set := range subsets(all) {
		rows, err := j.doneAs(ctx, set)
		if err != nil {
			return changed{}, err
		}
		if rows > 0 {
			return j.needed(ctx, set, rows)
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
func (j *Job) needed(ctx context.Context, set []meaning, rows int64) (changed, error) {
	for i := 0; i < len(set) && len(set) > 1; {
		without := slices.Concat(set[:i], set[i+1:])
		n, err := j.doneAs(ctx, without)
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
	for _, m := range set {
		c.about, c.keep = append(c.about, m.about), append(c.keep, m.keep)
	}
	return c, nil
}

// doneAs counts the new rows whose earlier meaning the output has done. Both readings give the rows of a place in the input
// one after the other, so they are compared place by place.
func (j *Job) doneAs(ctx context.Context, restored []meaning) (rows int64, err error) {
	reading := j.input.Reading()
	for _, m := range restored {
		m.restore(&reading)
	}
	source, err := j.input.As(reading, &j.contents).Open(true)
	if err != nil {
		return 0, nil //nolint:nilerr // what cannot be read in this way made no output
	}
	rules := j.engine.Rules
	rules.Defaults, rules.Naming = reading.Defaults, reading.Naming
	if reading.Steps != nil {
		rules.Steps = reading.Steps
		if err := rules.Seal(); err != nil {
			return 0, err
		}
	}
	earlier, stop := iter.Pull2(places(keyedBy(ctx, source, &rules, false)))
	defer stop()
	settled := j.engine.Ledger.Cursor()
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
	for now, err := range places(j.all(ctx)) {
		before, beforeErr, more := earlier()
		if err != nil || beforeErr != nil || !more {
			return rows, err
		}
		fresh, err := count(now, ledger.Absent)
		if err != nil {
			return rows, err
		}
		if fresh == 0 {
			continue
		}
		done, err := count(before, ledger.Done)
		if err != nil {
			return rows, err
		}
		rows += min(fresh, done)
	}
	return rows, nil
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

// keyedBy yields the rows of a source, filled, checked and keyed by rules.
func keyedBy(ctx context.Context, source engine.RowSource, rules *keys.Rules, tensors bool) iter.Seq2[*stages.Element, error] {
	return func(yield func(*stages.Element, error) bool) {
		for e, err := range source.Rows(ctx, tensors) {
			if err == nil {
				err = ctx.Err()
			}
			if err == nil {
				err = rules.Apply(e)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

// sameMeaning refuses a run that would compute rows of the output anew because of a changed meaning alone.
func (j *Job) sameMeaning(p Plan) error {
	if p.changed.rows == 0 || j.Opts.NewMeaning {
		return nil
	}
	return fault.Usage(fmt.Errorf("%v; or give --new-meaning, which computes them anew", p.changed))
}

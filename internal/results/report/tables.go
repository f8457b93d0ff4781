package report

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"reflect"
	"strings"

	"latentbeam/internal/config"
	"latentbeam/internal/results/where"
	"latentbeam/internal/storage/ledger"
	"latentbeam/internal/table/write"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
)

// tableWriter writes the tables without tensors, and the names of videos.
type tableWriter struct {
	place   place
	facts   Facts
	perFile int // rows of a file of the videos table, at most

	failed, done Columns // what the rows of the tables have of the input and of readings
}

// newTableWriter has learned nothing yet.
func newTableWriter(at place, facts Facts, perFile int) *tableWriter {
	t := &tableWriter{place: at, facts: facts, perFile: perFile, failed: ColumnsOf[schemas.FailureRow](), done: ColumnsOf[schemas.DatasetRow]()}
	if facts.Loras != "" {
		t.done.fix("loras", facts.Loras)
	}
	if facts.Licence != "" {
		t.done.fix("model_licence", facts.Licence)
		t.done.fix("model_revision", facts.Revision)
	}
	return t
}

// learn takes the columns of a row.
func (t *tableWriter) learn(o *outcome) error {
	switch o.status {
	case ledger.Failed:
		return t.failed.See(o.Row.Extra, nil)
	case ledger.Done:
		return t.done.See(o.Row.Extra, o.result.Readings)
	}
	return nil
}

// failures writes the failures table.
func (t *tableWriter) failures(ctx context.Context, rows iter.Seq2[outcome, error]) error {
	err := t.place.output.Replace(ctx, t.place.table("failures", 0), func(w io.Writer) error {
		return writeRows(w, only(ledger.Failed, rows), t.failureRow, &t.failed, t.facts.options())
	})
	if err == nil {
		err = t.place.removeFrom(ctx, "failures", 1)
	}
	if err != nil {
		return fmt.Errorf("write failures table: %w", err)
	}
	return nil
}

// videosPerFile bounds a file of the videos table; a row takes a few hundred bytes.
const videosPerFile = 500_000

// datasetFile is the table of videos as loaders of datasets look for it.
const datasetFile = "metadata.parquet"

// videos writes the table of videos. Columns that the input carries, and readings, are columns of it.
func (t *tableWriter) videos(ctx context.Context, rows iter.Seq2[outcome, error]) error {
	files, err := inFiles(only(ledger.Done, rows), t.perFile, func(i int, rows iter.Seq2[outcome, error]) error {
		return t.place.output.Replace(ctx, t.place.table("videos", i), func(w io.Writer) error {
			return writeRows(w, rows, t.videoRow, &t.done, t.facts.options())
		})
	})
	if err == nil {
		err = t.place.removeFrom(ctx, "videos", files)
	}
	if err != nil {
		return fmt.Errorf("write videos table: %w", err)
	}
	return nil
}

// dataset writes the table of videos once more, in one file at the top of the output. Shards write none: the report of
// all has it.
func (t *tableWriter) dataset(ctx context.Context, rows iter.Seq2[outcome, error]) error {
	row := func(o outcome) (schemas.DatasetRow, error) {
		v, err := t.videoRow(o)
		return schemas.DatasetRow{FileName: v.VideoPath, VideoRow: v}, err
	}
	err := t.place.output.Replace(ctx, datasetFile, func(w io.Writer) error {
		return writeWide(w, only(ledger.Done, rows), row, &t.done, t.facts.options())
	})
	if err != nil {
		return fmt.Errorf("write %s: %w", datasetFile, err)
	}
	return nil
}

// names gives every video its name. A report of all rows also removes what is no name of a row any more.
func (t *tableWriter) names(rows iter.Seq2[outcome, error], name *config.NameTemplate, chosen *where.Filter) error {
	takes, err := t.chosenBy(chosen)
	if err != nil {
		return err
	}
	folder, err := OpenNamedFolder(t.place.output.Store.URL())
	if err != nil {
		return err
	}
	defer folder.Close()
	for o, err := range only(ledger.Done, rows) {
		if err != nil {
			return err
		}
		if o.result.Video == nil || o.result.Video.Path == "" {
			continue
		}
		if is, err := takes(o); err != nil || !is {
			if err != nil {
				return err
			}
			continue
		}
		if err := folder.Give(o.result.Video.Path, NameOf(name, o.Element)); err != nil {
			return fault.TryAgain(fmt.Errorf("name the video of %s: %w", o.Given.Source, err))
		}
	}
	if t.place.part != "" {
		return nil
	}
	return folder.RemoveOthers()
}

// chosenBy returns what says whether a row of the videos table is chosen; nil chooses all.
func (t *tableWriter) chosenBy(f *where.Filter) (func(outcome) (bool, error), error) {
	if f == nil {
		return func(outcome) (bool, error) { return true, nil }, nil
	}
	zeros, at := map[string]any{}, map[string]int{}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[schemas.VideoRow]()) {
		name, _, _ := strings.Cut(field.Tag.Get("parquet"), ",")
		zeros[name] = plainValue(reflect.New(field.Type).Elem())
	}
	zeros["guidance_scale"] = 0.0
	for i, c := range t.done.List() {
		at[c.Name] = i
		zeros[c.Name] = map[write.ColumnType]any{write.Boolean: false, write.Integer: 0, write.Real: 0.0}[c.Type]
		if zeros[c.Name] == nil {
			zeros[c.Name] = ""
		}
	}
	bound, err := f.Bind("the table of videos", zeros)
	if err != nil {
		return nil, err
	}
	return func(o outcome) (bool, error) {
		row, err := t.videoRow(o)
		if err != nil {
			return false, err
		}
		values, err := t.done.Values(o.Row.Extra, o.result.Readings)
		if err != nil {
			return false, err
		}
		t.done.marked(values, selectedColumn, o.selected)
		own := reflect.ValueOf(row)
		return bound.Takes(func(column string) any {
			if i, more := at[column]; more {
				return plainValue(reflect.ValueOf(values[i]))
			}
			for i, field := range reflect.VisibleFields(own.Type()) {
				if name, _, _ := strings.Cut(field.Tag.Get("parquet"), ","); name == column {
					return plainValue(own.Field(i))
				}
			}
			return nil
		})
	}, nil
}

// plainValue is a value as expressions take it; nil for null.
func plainValue(v reflect.Value) any {
	for v.IsValid() && (v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface) {
		if v.IsNil() {
			return nil
		}
		v = v.Elem()
	}
	switch {
	case !v.IsValid():
		return nil
	case v.CanInt():
		return int(v.Int())
	case v.CanFloat():
		return v.Float()
	case v.Kind() == reflect.Bool:
		return v.Bool()
	}
	return v.String()
}

// writeRows writes a table, with the columns that its rows turned out to have.
func writeRows[T schemas.Row](w io.Writer, rows iter.Seq2[outcome, error], row func(outcome) (T, error), more *Columns,
	options write.Options) error {
	if len(more.List()) > 0 {
		return writeWide(w, rows, row, more, options)
	}
	_, err := write.Write(w, convert(rows, row), options)
	return err
}

func writeWide[T schemas.Row](w io.Writer, rows iter.Seq2[outcome, error], row func(outcome) (T, error), more *Columns,
	options write.Options) error {
	wide := convert(rows, func(o outcome) (write.Wide[T], error) {
		r, err := row(o)
		if err != nil {
			return write.Wide[T]{}, err
		}
		values, err := more.Values(o.Row.Extra, o.result.Readings)
		if err == nil {
			more.marked(values, selectedColumn, o.selected)
		}
		return write.Wide[T]{Row: r, Values: values}, err
	})
	_, err := write.WriteWide(w, more.List(), wide, options)
	return err
}

func (t *tableWriter) videoRow(o outcome) (schemas.VideoRow, error) {
	v, r := o.result.Video, &o.Row
	if v == nil {
		return schemas.VideoRow{}, fmt.Errorf("ledger record %s names no video", o.Key)
	}
	readings := ""
	if len(o.result.Readings) > 0 {
		js, err := json.Marshal(o.result.Readings)
		if err != nil {
			return schemas.VideoRow{}, fmt.Errorf("readings of %s: %w", o.Key, err)
		}
		readings = string(js)
	}
	width, height, frames := sizeOf(v, r)
	return schemas.VideoRow{
		ID: r.ID, Key: o.Key.String(), Prompt: r.Prompt, NegativePrompt: r.NegativePrompt,
		Seed: *r.Seed, SampleIndex: int64(r.SampleIndex), Model: t.facts.Model,
		Height: int64(height), Width: int64(width), NumFrames: int64(frames), FPS: r.FPS,
		NumInferenceSteps: int64(r.NumInferenceSteps), GuidanceScale: r.GuidanceScale,
		MaxSequenceLength: int64(r.MaxSequenceLength),
		VideoPath:         t.place.at(v), VideoBytes: v.Bytes, VideoSHA256: v.SHA256, Poster: v.Poster, Codec: v.Codec,
		Readings: readings, WeightsDigest: t.facts.Weights, Class: t.facts.Class, LatentbeamVersion: t.facts.Version, Extra: r.Extra,
	}, nil
}

func (t *tableWriter) failureRow(o outcome) (schemas.FailureRow, error) {
	parameters := struct { // without what has columns of its own
		schemas.PromptRow
		ID     string `json:"id,omitempty"`
		Prompt string `json:"prompt,omitempty"`
	}{PromptRow: o.Row}
	parameters.Extra, parameters.Source = "", ""
	js, err := json.Marshal(parameters)
	if err == nil && len(o.Wrong) > 0 {
		js, err = asGiven(js, o.Wrong)
	}
	if err != nil {
		return schemas.FailureRow{}, fmt.Errorf("failure of row %s: %w", o.Given.Source, err)
	}
	f := o.result.Failure
	return schemas.FailureRow{
		ID: o.Given.ID, Key: o.Key.String(), Source: o.Given.Source,
		Prompt: schemas.ValidText(o.Given.Prompt, schemas.MaxFailurePromptBytes),
		Class:  f.Class, Stage: f.Stage, Message: f.Message, Parameters: string(js), Extra: o.Given.Extra,
		SampleIndex: int64(o.Row.SampleIndex), LatentbeamVersion: t.facts.Version,
	}, nil
}

// asGiven puts what the table has in place of the parameters that could not be read.
func asGiven(parameters []byte, wrong map[string]string) ([]byte, error) {
	all := map[string]json.RawMessage{}
	if err := json.Unmarshal(parameters, &all); err != nil {
		return nil, err
	}
	for name, text := range wrong {
		if name == "id" || name == "prompt" { // which have columns
			continue
		}
		js, err := json.Marshal(text)
		if err != nil {
			return nil, err
		}
		all[name] = js
	}
	return json.Marshal(all)
}

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
	perFile int // maximal rows in a file of the videos table

	failed, done Columns // carried columns and readings of failed and finished rows
}

// newTableWriter returns a writer that has learned no rows yet.
func newTableWriter(at place, facts Facts, perFile int) *tableWriter {
	t := &tableWriter{place: at, facts: facts, perFile: perFile, failed: ColumnsOf[schemas.FailureRow](), done: ColumnsOf[schemas.DatasetRow]()}
	if facts.Loras != "" {
		t.done.addFixed("loras", facts.Loras)
	}
	if facts.Licence != "" {
		t.done.addFixed("model_licence", facts.Licence)
		t.done.addFixed("model_revision", facts.Revision)
	}
	return t
}

// learn adds the columns of a row.
func (t *tableWriter) learn(o *outcome) error {
	switch o.status {
	case ledger.Failed:
		return t.failed.Learn(o.Row.Extra, nil)
	case ledger.Done:
		return t.done.Learn(o.Row.Extra, o.result.Readings)
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

// videosPerFile limits the rows in a file of the videos table. A row has a few hundred bytes.
const videosPerFile = 500_000

// datasetFile is the name under which loaders of datasets look for the table of videos.
const datasetFile = "metadata.parquet"

// videos writes the table of videos, with columns for carried columns and readings.
func (t *tableWriter) videos(ctx context.Context, rows iter.Seq2[outcome, error]) error {
	files, err := splitFiles(only(ledger.Done, rows), t.perFile, func(i int, rows iter.Seq2[outcome, error]) error {
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

// dataset writes the table of videos a second time, in one file at the top of the output. Only the report of all rows has
// this file.
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

// names adds every chosen video to the folder of names. A report of all rows also removes other files from the folder.
func (t *tableWriter) names(rows iter.Seq2[outcome, error], name *config.NameTemplate, chosen *where.Filter) error {
	matches, err := t.chosenBy(chosen)
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
		if is, err := matches(o); err != nil || !is {
			if err != nil {
				return err
			}
			continue
		}
		if err := folder.Add(o.result.Video.Path, NameOf(name, o.Element)); err != nil {
			return fault.TryAgain(fmt.Errorf("name the video of %s: %w", o.Given.Source, err))
		}
	}
	if t.place.part != "" {
		return nil
	}
	return folder.RemoveOthers()
}

// chosenBy returns a function that reports whether f chooses a row of the videos table. A nil filter chooses all rows.
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
		t.done.setFlag(values, selectedColumn, o.selected)
		own := reflect.ValueOf(row)
		return bound.Matches(func(column string) any {
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

// plainValue converts a value to the type that expressions use; nil: null.
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

// writeRows writes a table. more are the columns that its rows have beside their type T.
func writeRows[T schemas.Row](w io.Writer, rows iter.Seq2[outcome, error], row func(outcome) (T, error), more *Columns,
	options write.Options) error {
	if len(more.List()) > 0 {
		return writeWide(w, rows, row, more, options)
	}
	_, err := write.Write(w, convert(rows, row), options)
	return err
}

// writeWide is writeRows for more columns; it also works for none.
func writeWide[T schemas.Row](w io.Writer, rows iter.Seq2[outcome, error], row func(outcome) (T, error), more *Columns,
	options write.Options) error {
	wide := convert(rows, func(o outcome) (write.Wide[T], error) {
		r, err := row(o)
		if err != nil {
			return write.Wide[T]{}, err
		}
		values, err := more.Values(o.Row.Extra, o.result.Readings)
		if err == nil {
			more.setFlag(values, selectedColumn, o.selected)
		}
		return write.Wide[T]{Row: r, Values: values}, err
	})
	_, err := write.WriteWide(w, more.List(), wide, options)
	return err
}

// videoRow returns the row of the videos table.
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
		VideoPath:         t.place.locate(v), VideoBytes: v.Bytes, VideoSHA256: v.SHA256, Poster: v.Poster, Codec: v.Codec,
		Readings: readings, WeightsDigest: t.facts.Weights, Class: t.facts.Class, LatentbeamVersion: t.facts.Version, Extra: r.Extra,
	}, nil
}

// failureRow returns the row of the failures table.
func (t *tableWriter) failureRow(o outcome) (schemas.FailureRow, error) {
	parameters := struct { // hides ID and Prompt, which have columns of their own
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

// asGiven replaces the parameters that could not be parsed by their texts in the input.
func asGiven(parameters []byte, wrong map[string]string) ([]byte, error) {
	all := map[string]json.RawMessage{}
	if err := json.Unmarshal(parameters, &all); err != nil {
		return nil, err
	}
	for name, text := range wrong {
		if name == "id" || name == "prompt" { // they have columns of their own
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

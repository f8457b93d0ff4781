package report

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"

	"latentbeam/internal/storage/ledger"

	"latentbeam/internal/table/write"
	"latentbeam/schemas"
)

// videosPerFile bounds a file of the videos table; a row takes a few hundred bytes.
const videosPerFile = 500_000

// datasetFile is the table of videos as loaders of datasets look for it.
const datasetFile = "metadata.parquet"

// videos writes the table of videos. Columns that the input carries, and readings, are columns of it.
func (j *Job) videos(ctx context.Context, rows iter.Seq2[outcome, error], more *Columns) error {
	files, err := inFiles(only(ledger.Done, rows), j.perFile(videosPerFile), func(i int, rows iter.Seq2[outcome, error]) error {
		return j.Output.Replace(ctx, j.tableName("videos", i), func(w io.Writer) error {
			if len(more.List()) == 0 {
				_, err := write.Write(w, convert(rows, j.videoRow), j.options())
				return err
			}
			return writeWide(w, rows, j.videoRow, more, j.options())
		})
	})
	if err == nil {
		err = j.removeFrom(ctx, "videos", files)
	}
	if err != nil {
		return fmt.Errorf("write videos table: %w", err)
	}
	return nil
}

// dataset writes the table of videos once more, in one file at the top of the output. Shards write none: the report of
// all has it.
func (j *Job) dataset(ctx context.Context, rows iter.Seq2[outcome, error], more *Columns) error {
	row := func(o outcome) (schemas.DatasetRow, error) {
		v, err := j.videoRow(o)
		return schemas.DatasetRow{FileName: v.VideoPath, VideoRow: v}, err
	}
	err := j.Output.Replace(ctx, datasetFile, func(w io.Writer) error {
		return writeWide(w, only(ledger.Done, rows), row, more, j.options())
	})
	if err != nil {
		return fmt.Errorf("write %s: %w", datasetFile, err)
	}
	return nil
}

func writeWide[T schemas.Row](w io.Writer, rows iter.Seq2[outcome, error], row func(outcome) (T, error), more *Columns,
	options write.Options) error {
	wide := convert(rows, func(o outcome) (write.Wide[T], error) {
		r, err := row(o)
		if err != nil {
			return write.Wide[T]{}, err
		}
		values, err := more.Values(o.Row.Extra, o.result.Readings)
		return write.Wide[T]{Row: r, Values: values}, err
	})
	_, err := write.WriteWide(w, more.List(), wide, options)
	return err
}

func (j *Job) videoRow(o outcome) (schemas.VideoRow, error) {
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
		Seed: *r.Seed, SampleIndex: int64(r.SampleIndex), Model: j.Model,
		Height: int64(height), Width: int64(width), NumFrames: int64(frames), FPS: r.FPS,
		NumInferenceSteps: int64(r.NumInferenceSteps), GuidanceScale: r.GuidanceScale,
		MaxSequenceLength: int64(r.MaxSequenceLength),
		VideoPath:         v.Path, VideoBytes: v.Bytes, VideoSHA256: v.SHA256, Poster: v.Poster, Codec: v.Codec,
		Readings: readings, WeightsDigest: j.Weights, Class: j.Class, LatentbeamVersion: j.Version, Extra: r.Extra,
	}, nil
}

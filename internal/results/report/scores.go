package report

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"

	"latentbeam/internal/storage/ledger"
	"latentbeam/schemas"
	"latentbeam/stages"
)

// ScoresFile is the name of the file with the scores of a finished output, in the format of VBench: for each dimension a mean and the
// value of each video.
const ScoresFile = "scores.json"

// dimensionColumn is the carried column that lists the dimensions in which a row counts, as in VBench's table of prompts: a JSON list,
// or names separated by commas. A row without it counts in all dimensions. A reading that is not a dimension includes all
// rows.
const dimensionColumn = "dimension"

// scored is one video in the file. VBench defines the first two fields.
type scored struct {
	Path   string `json:"video_path"`
	Result any    `json:"video_results"` // a number or a boolean
	Prompt string `json:"prompt"`
	Seed   int64  `json:"seed"`
	Sample int    `json:"sample_index"`
	SHA256 string `json:"video_sha256"`
}

// scoreFacts describe how the scores were computed. Equal facts and equal videos give equal files.
type scoreFacts struct {
	Version  string           `json:"latentbeam_version"`
	Class    string           `json:"class"`
	Model    string           `json:"model"`
	Weights  string           `json:"weights_digest"`
	Measures []stages.Measure `json:"measures"`
}

// scores writes the file. It has one member for each reading that is a number or a boolean, and the member `latentbeam` with the
// scoreFacts.
func (j *Job) scores(ctx context.Context, rows iter.Seq2[outcome, error]) error {
	var names []string
	for _, m := range j.Measures {
		names = append(names, m.Readings...)
	}
	all, elsewhere, known := map[string][]scored{}, map[string][]bool{}, map[string]bool{}
	for o, err := range only(ledger.Done, rows) {
		if err != nil {
			return err
		}
		dimensions, err := dimensionsOf(&o)
		if err != nil {
			return err
		}
		for _, name := range dimensions {
			known[name] = true
		}
		for _, name := range names {
			result, ok := resultOf(o.result.Readings[name])
			if !ok {
				continue
			}
			elsewhere[name] = append(elsewhere[name], dimensions != nil && !slices.Contains(dimensions, name))
			all[name] = append(all[name], scored{j.pathOf(&o), result, o.Row.Prompt, *o.Row.Seed, o.Row.SampleIndex, o.result.Video.SHA256})
		}
	}
	out := map[string]any{"latentbeam": scoreFacts{j.Version, j.Class, j.Model, j.Weights, j.Measures}}
	for name, videos := range all {
		if known[name] { // a dimension: leave out rows that do not count in it
			var own []scored
			for i, v := range videos {
				if !elsewhere[name][i] {
					own = append(own, v)
				}
			}
			videos = own
		}
		out[name] = []any{mean(videos), videos}
	}
	js, err := json.MarshalIndent(out, "", "  ") // sorts the names
	if err != nil {
		return err
	}
	err = j.place().output.Replace(ctx, ScoresFile, func(w io.Writer) error {
		_, err := w.Write(append(js, '\n'))
		return err
	})
	if err != nil {
		return fmt.Errorf("write %s: %w", ScoresFile, err)
	}
	return nil
}

// pathOf returns the readable name of a row's video; without names, it returns its path.
func (j *Job) pathOf(o *outcome) string {
	if j.Names != nil && o.result.Video.Path != "" {
		return "names/" + NameOf(j.Names, o.Element) + extOf(o.result.Video.Path)
	}
	return j.place().locate(o.result.Video)
}

// extOf returns the extension of a path, with its dot.
func extOf(path string) string {
	if i := strings.LastIndexByte(path, '.'); i >= 0 {
		return path[i:]
	}
	return ""
}

// resultOf converts a reading to the form of VBench: a boolean or a number; false: it is neither.
func resultOf(text string) (any, bool) {
	switch text {
	case "true", "True":
		return true, true
	case "false", "False":
		return false, true
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || v != v || v > 1e300 || v < -1e300 {
		return nil, false
	}
	return v, true
}

// mean returns the mean of the results. It adds in the order of the input; true counts as 1 and false as 0.
func mean(videos []scored) float64 {
	sum := 0.0
	for _, v := range videos {
		switch r := v.Result.(type) {
		case float64:
			sum += r
		case bool:
			if r {
				sum++
			}
		}
	}
	return sum / float64(len(videos))
}

// dimensionsOf returns the dimensions in which a row counts; nil: all.
func dimensionsOf(o *outcome) ([]string, error) {
	carried, err := schemas.Carried(o.Row.Extra)
	if err != nil {
		return nil, err
	}
	for _, c := range carried {
		if c.Name != dimensionColumn {
			continue
		}
		var list []string
		if json.Unmarshal(c.Value, &list) == nil {
			return list, nil
		}
		var text string
		if json.Unmarshal(c.Value, &text) != nil {
			return nil, nil
		}
		if json.Unmarshal([]byte(text), &list) == nil {
			return list, nil
		}
		for name := range strings.SplitSeq(text, ",") {
			list = append(list, strings.TrimSpace(name))
		}
		return list, nil
	}
	return nil, nil
}

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"latentbeam/internal/config"
	"latentbeam/internal/storage/store/open"
	"latentbeam/pipelines/jobfile"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
	"latentbeam/stages/score"
)

// scoreStage is the name of the stage that the verb adds to a job.
const scoreStage = "score"

// scoreFlags are the flags of `latentbeam score`.
type scoreFlags struct {
	run     runFlags
	by      []string
	weights []string
	output  string
	exec    bool
}

func scoreCommand(specs []stages.Spec) *cobra.Command {
	var f scoreFlags
	cmd := &cobra.Command{
		Use:   "score PATH...",
		Short: "Read scores off the videos of an output, a folder, a data set or a pattern; no video is made",
		Long: "Read scores off the videos of an output, a folder, a data set or a pattern; no video is made.\n\n" +
			"The readings of an output become columns of its tables, and stay there when its job runs again. With --output they go into a new\n" +
			"output, which refers to the videos where they are. Paths that are not one output need --output. With several outputs as paths,\n" +
			"the new output shows their videos side by side.\n\n" +
			"Measures: " + strings.Join(score.Names(), ", ") + ".",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			by, err := parseMeasures(f.by)
			if err != nil {
				return fault.Usage(err)
			}
			weights, err := parseWeights(f.weights)
			if err != nil {
				return fault.Usage(err)
			}
			if f.output == "" && len(args) > 1 {
				return fault.Usage(errors.New("several paths need --output DIR, the place for the readings of their videos"))
			}
			if f.output == "" {
				return f.scoreOutput(cmd, specs, args[0], by, weights)
			}
			return f.scoreToNew(cmd, specs, args, by, weights)
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&f.by, "by", nil, "measures to read, separated by commas; a unique beginning of a name is enough (default: all that need no weights)")
	flags.StringArrayVar(&f.weights, "weights", nil, "NAME=PATH of weights that measures need (repeatable)")
	flags.StringVar(&f.output, "output", "", "output directory for the readings, instead of the output that is scored")
	flags.IntVar(&f.run.limit, "limit", 0, "only the first N videos; 0: all")
	f.run.watch.addTo(cmd)
	addAllowExec(cmd, &f.exec, "the output's job.json")
	return cmd
}

// parseMeasures returns the measures for names or unique prefixes of names.
func parseMeasures(names []string) (by []string, err error) {
	for _, name := range names {
		var all []string
		for _, m := range score.Names() {
			if m == name {
				all = []string{m}
				break
			}
			if strings.HasPrefix(m, name) && name != "" {
				all = append(all, m)
			}
		}
		switch {
		case len(all) == 0:
			return nil, fmt.Errorf("--by names %q; there are %s", name, strings.Join(score.Names(), ", "))
		case len(all) > 1:
			return nil, fmt.Errorf("--by names %q, with which %s begin: write more of it", name, strings.Join(all, " and "))
		case !slices.Contains(by, all[0]):
			by = append(by, all[0])
		}
	}
	return by, nil
}

// parseWeights parses texts of the form NAME=PATH.
func parseWeights(pairs []string) (map[string]string, error) {
	weights := map[string]string{}
	for _, pair := range pairs {
		name, path, found := strings.Cut(pair, "=")
		if !found || name == "" || path == "" {
			return nil, fmt.Errorf("--weights is %q: write NAME=PATH", pair)
		}
		weights[name] = path
	}
	return weights, nil
}

// scoreOutput scores the videos of an output and adds the readings to it.
func (f *scoreFlags) scoreOutput(cmd *cobra.Command, specs []stages.Spec, output string, by []string, weights map[string]string) error {
	if err := checkOutput(cmd.Context(), output); err != nil {
		return err
	}
	for name, path := range weights { // relative to this directory, but runJob changes to the job's directory
		weights[name] = config.Absolute(mustGetwd(), path)
	}
	start, here, err := lastStart(cmd.Context(), output)
	if err != nil {
		return err
	}
	if cmd.Flags().Changed("limit") {
		start.Limit = f.run.limit
	}
	return runJob(cmd, start, jobRun{runFlags: f.run, overrides: []string{here}, specs: trusted(specs, f.exec, "score"), scoreOnly: true,
		adjust: func(cfg *config.Config) error { return addScore(cfg, by, weights) }})
}

// checkOutput returns an error that says what to do if path is not the output of a job.
func checkOutput(ctx context.Context, path string) error {
	s, err := open.Existing(ctx, path)
	if err == nil {
		_, err = s.Stat(ctx, jobfile.Name)
		s.Close()
	}
	if errors.Is(err, fs.ErrNotExist) && !config.IsAddress(path) && !strings.ContainsAny(path, "*?[") {
		if _, err := os.Stat(path); err != nil {
			return fault.Usage(fmt.Errorf("there is nothing to score: %w", err))
		}
	}
	if errors.Is(err, fs.ErrNotExist) || fault.ExitCode(err) == fault.ExitFatal {
		return fault.Usage(fmt.Errorf("%s is not the output of a job: give --output DIR, the place for the readings of its videos", path))
	}
	return err
}

func mustGetwd() string {
	dir, err := os.Getwd()
	if err != nil {
		return "."
	}
	return dir
}

// scoreToNew scores videos and writes the readings to a new output.
func (f *scoreFlags) scoreToNew(cmd *cobra.Command, specs []stages.Spec, paths, by []string, weights map[string]string) error {
	options, err := scoreOptions(by, weights)
	if err != nil {
		return err
	}
	quoted := make([]string, len(paths))
	for i, path := range paths {
		quoted[i] = strconv.Quote(path)
	}
	text := fmt.Sprintf("version: 1\nmodel: none\ninput: {videos: [%s], carry: [\"*\"]}\nstages:\n  - score: %s\noutput: {path: %s}\n",
		strings.Join(quoted, ", "), options, strconv.Quote(f.output))
	start := jobfile.Start{File: "score.yaml", YAML: text, Dir: mustGetwd(), Limit: f.run.limit}
	return runJob(cmd, start, jobRun{runFlags: f.run, specs: specs})
}

// scoreOptions returns the options of the stage as JSON, which is also YAML.
func scoreOptions(by []string, weights map[string]string) (string, error) {
	options := map[string]any{}
	if len(by) > 0 {
		options["by"] = by
	}
	if len(weights) > 0 {
		options["weights"] = weights
	}
	js, err := json.Marshal(options)
	return string(js), err
}

// addScore adds measures to a job: to its stage score if there is one, else to a new stage.
func addScore(cfg *config.Config, by []string, weights map[string]string) error {
	text, err := scoreOptions(by, weights)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(cfg.Stages, func(s config.Stage) bool { return s.Name == scoreStage })
	if i >= 0 {
		var has struct {
			By      []string          `json:"by"`
			Weights map[string]string `json:"weights"`
		}
		all := map[string]any{}
		js, err := cfg.Stages[i].Options.MarshalJSON()
		if err == nil {
			err = errors.Join(json.Unmarshal(js, &has), json.Unmarshal(js, &all))
		}
		if err != nil {
			return err
		}
		if len(has.By) == 0 {
			has.By = score.WithoutWeights()
		}
		for _, name := range by {
			if !slices.Contains(has.By, name) {
				has.By = append(has.By, name)
			}
		}
		if has.Weights == nil {
			has.Weights = map[string]string{}
		}
		for name, path := range weights {
			has.Weights[name] = path
		}
		all["by"], all["weights"] = has.By, has.Weights
		if js, err = json.Marshal(all); err != nil {
			return err
		}
		text = string(js)
	}
	options, err := config.ParseOptions(scoreStage, text)
	if err != nil {
		return err
	}
	stage := config.Stage{Name: scoreStage, Options: options}
	if i >= 0 {
		cfg.Stages[i] = stage
		return nil
	}
	cfg.Extra = append(cfg.Extra, stage)
	return nil
}

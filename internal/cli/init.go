package cli

import (
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"latentbeam/internal/config"
	"latentbeam/python"
	"latentbeam/schemas/fault"
)

// starterPrompts is the table that the starter configuration reads.
const starterPrompts = `id,prompt
red-circle,a red circle moves to the right on a black background
blue-square,a blue square goes up
green-triangle,the green triangle stays still on a white background
`

//go:embed templates
var templates embed.FS

// template is a job that `init` writes, with the files that it needs.
type template struct {
	name, doc string
	job       func() string
	files     []starterFile
	weights   string // how the user gets the weights; "": none are needed
}

// starterFile is a file that init writes beside the job.
type starterFile struct {
	name string
	text func() string
}

// jobTemplates lists the templates of jobs, the default first.
var jobTemplates = []template{
	{name: "tiny", doc: "the built-in model", job: config.Default, files: []starterFile{prompts}},
	{name: "exec", doc: "a Python program of yours as a stage", job: templateText("exec.yaml"),
		files: []starterFile{prompts, {"generate.py", templateText("generate.py")}, pythonStage}},
	{name: "diffusers", doc: "a pipeline of diffusers as a stage", job: templateText("diffusers.yaml"),
		files: []starterFile{prompts, {"generate.py", templateText("diffusers.py")}, pythonStage}},
	{name: "wan", doc: "Wan 2.1, text to video", job: templateText("wan.yaml"), files: []starterFile{prompts},
		weights: "latentbeam pull Wan-AI/Wan2.1-T2V-1.3B-Diffusers"},
	{name: "vbench", doc: "VBench: five samples a prompt, its names, scores and form of results", job: templateText("vbench.yaml"), files: []starterFile{vbenchPrompts}},
	{name: "mlperf", doc: "MLPerf Inference's text to video, Wan 2.2 A14B", job: templateText("mlperf.yaml"),
		files: []starterFile{mlperfPrompts}, weights: "latentbeam pull Wan-AI/Wan2.2-T2V-A14B-Diffusers"},
	{name: "opensora", doc: "Open-Sora 1.2", job: templateText("opensora.yaml"), files: []starterFile{prompts},
		weights: "hf download, as the job says"},
	{name: "precompute", doc: "latents and text embeddings of videos, to train on", job: templateText("precompute.yaml"), files: clips},
	{name: "caption", doc: "the same, with captions by a model of transformers", job: templateText("caption.yaml"),
		files: append([]starterFile{{"caption.py", templateText("caption.py")}, pythonStage}, clips[0])},
}

// Files of more than one template.
var (
	prompts     = starterFile{"prompts.csv", func() string { return starterPrompts }}
	pythonStage = starterFile{"latentbeam_stage.py", func() string { return python.Stage }}
	clips       = []starterFile{{"clips/sample.png", templateText("sample.png")},
		{"clips/sample.txt", func() string { return "a red circle\n" }}}
)

// Prompt tables in the formats of the benchmarks. The benchmarks bring their own prompts, so these tables contain only examples.
var (
	vbenchPrompts = starterFile{"VBench_full_info.json", func() string {
		return `[
  {"prompt_en": "a red circle moves to the right on a black background", "dimension": ["temporal_flickering", "subject_consistency"]},
  {"prompt_en": "a blue square goes up", "dimension": ["aesthetic_quality", "overall_consistency"]}
]
`
	}}
	mlperfPrompts = starterFile{"vbench_prompts.txt", func() string { return "a red circle moves to the right on a black background\na blue square goes up\n" }}
)

// templateText returns a function that returns the text of an embedded file.
func templateText(name string) func() string {
	return func() string {
		text, err := templates.ReadFile("templates/" + name)
		if err != nil {
			panic(err)
		}
		return string(text)
	}
}

func initCommand() *cobra.Command {
	var names, docs []string
	for _, t := range jobTemplates {
		names, docs = append(names, t.name), append(docs, t.name+" ("+t.doc+")")
	}
	var chosen string
	cmd := &cobra.Command{
		Use:   "init [FILE]",
		Short: "Write a commented job and a small prompt table to start from (default job.yaml, prompts.csv)",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := "job.yaml"
			if len(args) == 1 {
				name = args[0]
			}
			i := slices.Index(names, chosen)
			if i < 0 {
				return fault.Usage(fmt.Errorf("--template is %q: give one of %s", chosen, strings.Join(names, ", ")))
			}
			return writeJob(cmd, name, jobTemplates[i])
		},
	}
	cmd.Flags().StringVar(&chosen, "template", jobTemplates[0].name, "kind of job: "+strings.Join(docs, ", "))
	return cmd
}

// writeJob writes the files of a template. It fails if the job is there already; other files that are there are kept.
func writeJob(cmd *cobra.Command, name string, t template) error {
	if err := create(name, t.job()); err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "wrote %s\n", name)
	var ours []string // folders that this call created
	for _, f := range t.files {
		if dir := filepath.Dir(f.name); dir != "." && !slices.Contains(ours, dir) {
			switch err := os.Mkdir(dir, 0o777); {
			case errors.Is(err, os.ErrExist): // it holds files of the user: a sample among them would become training data
				fmt.Fprintf(cmd.OutOrStdout(), "%s is there already: no sample was written into it\n", dir)
				continue
			case err != nil:
				return err
			}
			ours = append(ours, dir)
		}
		switch err := create(f.name, f.text()); {
		case errors.Is(err, os.ErrExist):
		case err != nil:
			return err
		default:
			fmt.Fprintf(cmd.OutOrStdout(), "wrote %s\n", f.name)
		}
	}
	if t.weights != "" {
		fmt.Fprintf(cmd.OutOrStdout(), "get the weights once: %s\n", t.weights)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "now run: latentbeam run %s\n", name)
	return nil
}

// create writes a new file. It fails if there is a file of this name.
func create(name, text string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, os.ErrExist) {
		return fault.Usage(fmt.Errorf("%w: give another name, or remove it", err))
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

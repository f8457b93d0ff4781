package read

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"

	"latentbeam/internal/table/typed"
)

// txtReader reads one prompt for each line. It skips blank lines and lines that start with #. With raw it does not: an empty
// line is then the empty prompt. A newline at the end of the file does not start another line.
type txtReader struct {
	path    string
	lines   *lineReader
	names   names
	skipped int
}

func openTXT(path string, names names) (rowReader, error) {
	lines, err := openLines(path)
	if err != nil {
		return nil, err
	}
	return &txtReader{path: path, lines: lines, names: names}, nil
}

func (r *txtReader) next(raw *rawRow) error {
	text, err := r.lines.read()
	for err == nil && !r.names.rawText && isNoPrompt(text) {
		r.skipped++
		text, err = r.lines.read()
	}
	raw.line = r.lines.line
	if errors.Is(err, io.EOF) {
		r.names.uses.skip(r.path, r.skipped)
	}
	if errors.Is(err, errTooLong) {
		raw.fault, raw.fix = "the line is "+err.Error(), "one line is one prompt"
		return nil
	}
	if err != nil {
		return err
	}
	prompt := string(text)
	if !r.names.rawText {
		r.names.uses.flags(r.path, raw.line, prompt)
	}
	raw.values[fieldPrompt] = typed.Cell{Kind: typed.TextValue, Text: prompt}
	return nil
}

// isNoPrompt reports whether a line is blank or a comment.
func isNoPrompt(line []byte) bool { return len(bytes.TrimSpace(line)) == 0 || line[0] == '#' }

func (r *txtReader) close() error { return r.lines.close() }

// trainerFlag matches an option that trainers (sd-scripts, musubi-tuner) allow after the prompts in their sample files.
var trainerFlag = regexp.MustCompile(`\s--(w|h|f|d|s|n|g|l|fs|i|ei|ci|cn|of)\s`)

// trainerFlags maps these options to columns.
var trainerFlags = map[string]string{"w": "width", "h": "height", "f": "num_frames", "d": "seed", "s": "num_inference_steps",
	"n": "negative_prompt", "g": "guidance_scale", "l": "guidance_scale", "i": "reference", "ei": "reference"}

// flagsOf returns the trainer options in a prompt, and the corresponding columns.
func flagsOf(prompt string) (flags, columns string) {
	if !strings.Contains(prompt, "--") { // true for most prompts
		return "", ""
	}
	var all, named []string
	for _, m := range trainerFlag.FindAllStringSubmatch(prompt+" ", -1) {
		all = append(all, "--"+m[1])
		if column := trainerFlags[m[1]]; column != "" && !slices.Contains(named, column) {
			named = append(named, column)
		}
	}
	return strings.Join(all, " "), strings.Join(named, ", ")
}

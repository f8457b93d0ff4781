package read

import (
	"errors"

	"latentbeam/internal/table/typed"
)

// txtReader reads one prompt a line. An empty line is the empty prompt, which renders; a newline at the
// end of the file does not begin another line.
type txtReader struct{ lines *lineReader }

func openTXT(path string, _ names) (rowReader, error) {
	lines, err := openLines(path)
	if err != nil {
		return nil, err
	}
	return &txtReader{lines}, nil
}

func (r *txtReader) next(raw *rawRow) error {
	text, err := r.lines.read()
	raw.line = r.lines.line
	if errors.Is(err, errTooLong) {
		raw.fault, raw.fix = "the line is "+err.Error(), "one line is one prompt"
		return nil
	}
	if err != nil {
		return err
	}
	raw.values[fieldPrompt] = typed.Cell{Kind: typed.TextValue, Text: string(text)}
	return nil
}

func (r *txtReader) close() error { return r.lines.close() }

package document

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// Limits of a configuration file. Real jobs have a few dozen lines.
const (
	// MaxFileBytes is the maximum size of a configuration file.
	MaxFileBytes = 1 << 20
	maxFlowDepth = 64 // open brackets in a line of flow style, before the YAML library sees them
)

// Parse parses one YAML document. The node is nil if the text is empty or if there is an error.
func Parse(src *Text, flag string) (*Node, *Error) {
	problems := &Error{}
	start := Position{Source: src, Line: 1, Column: 1, Flag: flag}
	switch text := src.Text; {
	case len(text) > MaxFileBytes:
		problems.Add(start, fmt.Sprintf("the file has %d bytes, more than %d", len(text), MaxFileBytes),
			"is this the job's YAML? Prompts belong in a table named under input")
		return nil, problems
	case !utf8.Valid(text):
		start.Line = 1 + bytes.Count(text[:invalidUTF8(text)], []byte("\n"))
		problems.Add(start, "not valid UTF-8", "save the file as UTF-8")
		return nil, problems
	case tooDeep(text):
		problems.Add(start, fmt.Sprintf("brackets nest deeper than %d levels", maxFlowDepth), "")
		return nil, problems
	}
	file, err := parseBytes(src.Text)
	if err != nil {
		problems.Add(syntaxProblem(src, flag, err))
		return nil, problems
	}
	docs := file.Docs[:0:0]
	for _, doc := range file.Docs {
		if doc.Body != nil && doc.Body.Type() != ast.CommentType {
			docs = append(docs, doc)
		}
	}
	if len(docs) == 0 {
		return nil, nil
	}
	b := builder{src: src, flag: flag, errors: problems}
	if len(docs) > 1 {
		problems.Add(b.build(docs[1].Body).Pos, "a second YAML document begins here", "one file is one job")
	}
	root := b.build(docs[0].Body)
	if len(problems.Problems) > 0 {
		return nil, problems
	}
	return root, nil
}

// parseBytes parses YAML and returns a panic of the YAML library as an error.
func parseBytes(text []byte) (file *ast.File, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("not YAML (%v)", r)
		}
	}()
	return parser.ParseBytes(text, 0, parser.AllowDuplicateMapKey())
}

func syntaxProblem(src *Text, flag string, err error) (pos Position, message, fix string) {
	pos = Position{Source: src, Flag: flag}
	message = err.Error()
	var located yaml.Error
	if errors.As(err, &located) {
		message = located.GetMessage()
		if tk := located.GetToken(); tk != nil && tk.Position != nil && flag == "" {
			pos.Line, pos.Column = tk.Position.Line, tk.Position.Column
		}
	}
	line := src.line(pos.Line)
	indent := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
	switch {
	case strings.Contains(indent, "\t"):
		fix = "YAML is indented with spaces; replace the tab"
	case strings.Contains(line, "\t"):
		fix = "a tab stands in this line; YAML wants spaces"
	default:
		fix = "check indentation, colons (\"key: value\") and quotes here and in the line above"
	}
	return pos, "not valid YAML: " + message, fix
}

func invalidUTF8(text []byte) int {
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return len(text)
}

// tooDeep reports whether brackets nest so deep that the recursion of the YAML library could overflow. It also counts brackets in
// quotes, so the limit must be far above what real files need.
func tooDeep(text []byte) bool {
	depth := 0
	for _, c := range text {
		switch c {
		case '[', '{':
			if depth++; depth > maxFlowDepth {
				return true
			}
		case ']', '}':
			depth = max(0, depth-1)
		case '\n':
			depth = 0
		}
	}
	return false
}

package typed

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"latentbeam/schemas"
)

// CellKind is what a cell holds.
type CellKind uint8

// The kinds.
const (
	Absent CellKind = iota // null, an empty cell of a number, a key that is not there
	TextValue
	IntegerValue
	RealValue
	BoolValue
	OtherValue // a list, a map, a timestamp: nothing that a field takes
)

// Cell is one cell on its way to a field. Text is how the table writes it, also for numbers.
type Cell struct {
	Kind  CellKind
	Text  string
	Int   int64
	Float float64
}

// quoted is v as a message about a parameter shows it. A text of several words is a prompt that slipped into
// another column, and prompts are private.
func (v Cell) quoted() string {
	const most = 40
	switch {
	case v.Kind == OtherValue && v.KindName() != "a number":
		return v.KindName()
	case v.Kind != TextValue && len(v.Text) <= most:
		return v.Text
	case len(strings.Fields(v.Text)) > 1, len(v.Text) > most:
		return fmt.Sprintf("a text of %d bytes", len(v.Text))
	}
	return strconv.Quote(schemas.ValidText(v.Text, most))
}

// KindName says what v is without a word of what it holds.
func (v Cell) KindName() string {
	switch v.Kind {
	case TextValue:
		return "a text"
	case IntegerValue, RealValue:
		return "a number"
	case BoolValue:
		return "a boolean"
	}
	if v.Text == "" {
		return "a value"
	}
	switch c := v.Text[0]; {
	case c == '[':
		return "a list"
	case c == '{':
		return "an object"
	case v.Text == "NaN", v.Text == "Infinity", v.Text == "-Infinity":
		return v.Text
	case c == '(':
		return "a value of raw bytes"
	case json.Valid([]byte(v.Text)): // larger than numbers of the program
		return "a number"
	}
	return "a value of another type"
}

// exactFloat is where float64 stops holding every whole number.
const exactFloat = 1 << 53

// Integer reads a whole number. Text and floats that hold one exactly count, for csv has nothing else and
// pandas writes 42.0 in a column with gaps.
func (v Cell) Integer() (int64, error) {
	switch v.Kind {
	case IntegerValue:
		return v.Int, nil
	case TextValue:
		text := strings.TrimSpace(v.Text)
		n, err := strconv.ParseInt(text, 10, 64)
		if err == nil {
			return n, nil
		}
		if errors.Is(err, strconv.ErrRange) {
			return 0, fmt.Errorf("%s is too large for a whole number", v.quoted())
		}
		f, err := strconv.ParseFloat(text, 64)
		if err == nil && f == math.Trunc(f) && math.Abs(f) <= exactFloat {
			return int64(f), nil
		}
	case RealValue:
		if v.Float == math.Trunc(v.Float) && math.Abs(v.Float) <= exactFloat {
			return int64(v.Float), nil
		}
	}
	return 0, fmt.Errorf("%s is not a whole number", v.quoted())
}

// Real reads a number; a text that holds one counts.
func (v Cell) Real() (float64, error) {
	switch v.Kind {
	case IntegerValue:
		return float64(v.Int), nil
	case RealValue:
		return v.Float, nil
	case TextValue:
		if f, err := strconv.ParseFloat(strings.TrimSpace(v.Text), 64); err == nil {
			return f, nil
		}
	}
	return 0, fmt.Errorf("%s is not a number", v.quoted())
}

// Limits of what is read of a row. A row beyond them is a bad row.
const (
	MaxRecordBytes = 16 << 20  // of a line, a csv record or a text
	MaxExtraBytes  = 256 << 10 // of a row's carried columns, as JSON
)

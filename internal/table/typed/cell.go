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

// CellKind is the type of a cell's value.
type CellKind uint8

// The kinds.
const (
	Absent CellKind = iota // null, an empty cell of a number, a missing key
	TextValue
	IntegerValue
	RealValue
	BoolValue
	OtherValue // a list, a map, a timestamp: no field accepts it
)

// Cell is one value that is to be stored in a field. Text is its form in the table, also for numbers.
type Cell struct {
	Kind  CellKind
	Text  string
	Int   int64
	Float float64
}

// quoted returns v for a message about a parameter. A text of several words is not quoted: it is a prompt in the wrong column,
// and prompts are private.
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

// KindName returns the type of v without its value.
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
	case json.Valid([]byte(v.Text)): // exceeds the range of the program's numbers
		return "a number"
	case len(v.Text) == 36 && strings.Count(v.Text, "-") == 4: // Format gives no other value this form
		return "a UUID"
	}
	return "a date or a time"
}

// exactFloat is the largest power of two up to which float64 stores all integers exactly.
const exactFloat = 1 << 53

// Integer converts v to an integer. It accepts texts, and floats with an integer value, because csv has only texts and pandas
// writes 42.0 in a column with missing values.
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

// Real converts v to a number. It accepts texts.
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

// Limits for reading a row. A row that exceeds them is a bad row.
const (
	MaxRecordBytes = 16 << 20  // of a line, a csv record or a text
	MaxExtraBytes  = 256 << 10 // of a row's carried columns, as JSON
)

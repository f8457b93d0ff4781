package table

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"latentbeam/internal/aspect"
	"latentbeam/schemas"
)

// valueKind is what a cell holds.
type valueKind uint8

const (
	absent valueKind = iota // null, an empty cell of a number, a key that is not there
	textValue
	integerValue
	realValue
	boolValue
	otherValue // a list, a map, a timestamp: nothing that a field takes
)

// value is one cell on its way to a field. text is how the table writes it, also for numbers.
type value struct {
	kind valueKind
	text string
	i    int64
	f    float64
}

// quoted is v as a message about a parameter shows it. A text of several words is a prompt that slipped into
// another column, and prompts are private.
func (v value) quoted() string {
	const most = 40
	switch {
	case v.kind == otherValue && v.kindName() != "a number":
		return v.kindName()
	case v.kind != textValue && len(v.text) <= most:
		return v.text
	case len(strings.Fields(v.text)) > 1, len(v.text) > most:
		return fmt.Sprintf("a text of %d bytes", len(v.text))
	}
	return strconv.Quote(schemas.ValidText(v.text, most))
}

// kindName says what v is without a word of what it holds.
func (v value) kindName() string {
	switch v.kind {
	case textValue:
		return "a text"
	case integerValue, realValue:
		return "a number"
	case boolValue:
		return "a boolean"
	}
	if v.text == "" {
		return "a value"
	}
	switch c := v.text[0]; {
	case c == '[':
		return "a list"
	case c == '{':
		return "an object"
	case c == '(':
		return "a value of raw bytes"
	case json.Valid([]byte(v.text)): // larger than numbers of the program
		return "a number"
	}
	return "a value of another type"
}

// exactFloat is where float64 stops holding every whole number.
const exactFloat = 1 << 53

// integer reads a whole number. Text and floats that hold one exactly count, for csv has nothing else and
// pandas writes 42.0 in a column with gaps.
func (v value) integer() (int64, error) {
	switch v.kind {
	case integerValue:
		return v.i, nil
	case textValue:
		text := strings.TrimSpace(v.text)
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
	case realValue:
		if v.f == math.Trunc(v.f) && math.Abs(v.f) <= exactFloat {
			return int64(v.f), nil
		}
	}
	return 0, fmt.Errorf("%s is not a whole number", v.quoted())
}

func (v value) real() (float64, error) {
	switch v.kind {
	case integerValue:
		return float64(v.i), nil
	case realValue:
		return v.f, nil
	case textValue:
		if f, err := strconv.ParseFloat(strings.TrimSpace(v.text), 64); err == nil {
			return f, nil
		}
	}
	return 0, fmt.Errorf("%s is not a number", v.quoted())
}

func checkText(s string, f schemas.Field) error {
	if float64(len(s)) > f.Max {
		return fmt.Errorf("%d bytes are too long, at most %.0f are read", len(s), f.Max)
	}
	if !utf8.ValidString(s) {
		return errors.New("not valid UTF-8")
	}
	return nil
}

// The places of the fields in a rawRow, the order of schemas.Fields.
const (
	fieldID = iota
	fieldPrompt
	fieldNegativePrompt
	fieldSeed
	fieldHeight
	fieldWidth
	fieldNumFrames
	fieldFPS
	fieldSteps
	fieldGuidance
	fieldMaxLength
	fieldNumVideos
	fieldResolution
	fieldAspectRatio
	fieldAes
	fieldFlow
	fieldCameraMotion
	fieldReference
	fieldMaskStrategy
	fieldLoop
	fieldConditionLength
	fieldConditionEdit
	fieldGuidance2
	fieldNoise
	fieldMedia
	numFields
)

// rawRow is a row before its cells are understood.
type rawRow struct {
	line   int    // of the file, or the row's number; from 1
	unit   string // "row " where rows are counted and not lines
	values [numFields]value
	needed int    // the field without which a row is nothing
	extra  []byte // JSON members of the carried columns without the braces
	// fault is why the row as a whole cannot be read: not JSON, ragged, ...; fix is what to do about it.
	fault, fix string
}

// maxOthers bounds the errors that are told of a row beside the first.
const maxOthers = 8

func (r *rawRow) reset() {
	r.line, r.unit, r.fault, r.fix = 0, "", "", ""
	r.values = [numFields]value{}
	r.extra = r.extra[:0]
}

// fill puts the understood cells into row and reports those that cannot be.
func (r *rawRow) fill(row *schemas.PromptRow) *RowError {
	var first *RowError
	fail := func(field int, err error) {
		f := schemas.Fields()[field]
		if err != nil && first != nil && len(first.Others) < maxOthers {
			first.Others = append(first.Others, f.Name+": "+err.Error())
		}
		if err != nil && first == nil {
			first = &RowError{Column: f.Name, Problem: err.Error(), Fix: "give " + f.Range()}
			if field != r.needed && field != fieldID {
				first.Fix += ", or leave it empty for the default"
			}
		}
	}
	text := func(field int, into *string) {
		v := r.values[field]
		switch {
		case v.kind == textValue, v.kind == integerValue && field == fieldID,
			field > fieldNumVideos && (v.kind == integerValue || v.kind == realValue): // a score is often a number
			*into = v.text
			fail(field, checkText(v.text, schemas.Fields()[field]))
		case v.kind != absent:
			fail(field, fmt.Errorf("%s is not a text", v.kindName()))
		}
	}
	whole := func(field int, into *int) {
		if n, given, err := r.integer(field); given {
			fail(field, err)
			*into = int(n)
		}
	}
	real := func(field int, into *float64) bool {
		f, given, err := r.real(field)
		fail(field, err)
		*into = f
		return given
	}
	text(fieldID, &row.ID)
	text(fieldPrompt, &row.Prompt)
	text(fieldMedia, &row.Media)
	if r.values[r.needed].kind == absent || r.needed == fieldMedia && row.Media == "" {
		fail(r.needed, errors.New("the value is missing"))
	}
	text(fieldNegativePrompt, &row.NegativePrompt)
	if seed, given, err := r.integer(fieldSeed); given {
		fail(fieldSeed, err)
		row.Seed = &seed
	}
	whole(fieldHeight, &row.Height)
	whole(fieldWidth, &row.Width)
	whole(fieldNumFrames, &row.NumFrames)
	real(fieldFPS, &row.FPS)
	whole(fieldSteps, &row.NumInferenceSteps)
	var guidance float64
	if real(fieldGuidance, &guidance) {
		row.GuidanceScale = &guidance
	}
	whole(fieldMaxLength, &row.MaxSequenceLength)
	whole(fieldNumVideos, &row.NumVideosPerPrompt)
	fillLater(row, text, whole, real)
	r.takeSuffix(row)
	return first
}

// fillLater puts in the fields that prompt rows have had since later versions, by the functions of fill.
func fillLater(row *schemas.PromptRow, text func(int, *string), whole func(int, *int),
	real func(int, *float64) bool) {
	text(fieldResolution, &row.Resolution)
	text(fieldAspectRatio, &row.AspectRatio)
	text(fieldAes, &row.Aes)
	text(fieldFlow, &row.Flow)
	text(fieldCameraMotion, &row.CameraMotion)
	text(fieldReference, &row.Reference)
	text(fieldMaskStrategy, &row.MaskStrategy)
	row.Resolution = strings.TrimSuffix(row.Resolution, ".0") // 512.0 in a column with gaps
	whole(fieldLoop, &row.Loop)
	whole(fieldConditionLength, &row.ConditionFrameLength)
	var edit float64
	if real(fieldConditionEdit, &edit) {
		row.ConditionFrameEdit = &edit
	}
	var second float64
	if real(fieldGuidance2, &second) {
		row.GuidanceScale2 = &second
	}
	text(fieldNoise, &row.Noise)
}

// empty tells whether the row is silent about a number.
func (r *rawRow) empty(field int) bool {
	v := r.values[field]
	return v.kind == absent || v.kind == textValue && strings.TrimSpace(v.text) == ""
}

func (r *rawRow) integer(field int) (n int64, given bool, err error) {
	if r.empty(field) {
		return 0, false, nil
	}
	if frames, lengthErr := aspect.Frames(r.values[field].text); lengthErr == nil && field == fieldNumFrames {
		return int64(frames), true, nil // "4s"
	}
	if n, err = r.values[field].integer(); err == nil {
		err = schemas.Fields()[field].CheckInteger(n)
	}
	if err != nil {
		n = 0
	}
	return n, true, err
}

func (r *rawRow) real(field int) (f float64, given bool, err error) {
	if r.empty(field) {
		return 0, false, nil
	}
	if f, err = r.values[field].real(); err == nil {
		err = schemas.Fields()[field].CheckReal(f)
	}
	if err != nil {
		f = 0
	}
	return f, true, err
}

package read

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"latentbeam/internal/table/typed"
	"latentbeam/schemas"
)

var errUTF8 = errors.New("not valid UTF-8")

func checkText(s string, f schemas.Field) error {
	if float64(len(s)) > f.Max {
		return fmt.Errorf("%d bytes are too long, at most %.0f are read", len(s), f.Max)
	}
	if !utf8.ValidString(s) {
		return errUTF8
	}
	if strings.IndexByte(s, 0) >= 0 {
		return errNUL
	}
	return nil
}

// The positions of the fields in a rawRow, in the order of schemas.Fields.
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
	fieldSample
	numFields
	// fieldSize is not a field of a row: it sets height and width.
	fieldSize = numFields
	numValues = fieldSize + 1
)

// rawRow is a row whose cells are not converted yet.
type rawRow struct {
	line   int    // line in the file, or the row's number; from 1
	unit   string // "row " if rows are counted instead of lines
	values [numValues]typed.Cell
	needed int             // the field that every row must have
	naming *schemas.Naming // reads lengths
	fps    float64         // for rows without one
	extra  []byte          // JSON members of the carried columns, without braces
	sample *int            // the single video that the row asks for; nil: all
	// captions are the captions of a list; the first is also the prompt.
	captions []string
	// fault says why the row as a whole cannot be read, such as invalid JSON; fix says what to do.
	fault, fix string
}

// maxOthers limits the errors that are reported for a row besides the first.
const maxOthers = 8

// maxGiven limits how much of a wrong cell is quoted, in bytes.
const maxGiven = 200

func (r *rawRow) reset() {
	r.line, r.unit, r.fault, r.fix = 0, "", "", ""
	r.values = [numValues]typed.Cell{}
	r.extra, r.captions = r.extra[:0], r.captions[:0]
}

// fill stores the converted cells in row and reports cells that cannot be converted.
func (r *rawRow) fill(row *schemas.PromptRow) *typed.RowError {
	var first *typed.RowError
	fail := func(field int, err error) {
		if err == nil {
			return
		}
		name, fix := fieldName(field), "give width and height, such as 832x480"
		if field != fieldSize {
			allowed := schemas.Fields()[field].Range()
			switch fix = "give " + allowed; {
			case errors.Is(err, errUTF8):
				fix = "save the table as UTF-8"
			case strings.HasSuffix(err.Error(), allowed): // it is said already
				fix = "correct it"
			}
		}
		defer func() { first.Given[name] = schemas.ValidText(r.values[field].Text, maxGiven) }()
		if first != nil && len(first.Others) < maxOthers {
			first.Others = append(first.Others, name+": "+err.Error())
		}
		if first == nil {
			first = &typed.RowError{Column: name, Problem: err.Error(), Fix: fix, Given: map[string]string{}}
			if field != r.needed && field != fieldID {
				first.Fix += ", or leave it empty for the default"
			}
		}
	}
	text := func(field int, into *string) {
		v := r.values[field]
		switch {
		case v.Kind == typed.TextValue, v.Kind == typed.IntegerValue && field == fieldID,
			field > fieldNumVideos && (v.Kind == typed.IntegerValue || v.Kind == typed.RealValue): // a score is often a number
			*into = v.Text
			fail(field, checkText(v.Text, schemas.Fields()[field]))
		case v.Kind != typed.Absent:
			fail(field, fmt.Errorf("%s is not a text", v.KindName()))
		}
	}
	whole := func(field int, into *int) {
		if n, given, err := r.integer(field); given {
			fail(field, err)
			*into = int(n)
		}
	}
	real := func(field int) (float64, bool) {
		f, given, err := r.real(field)
		fail(field, err)
		return f, given
	}
	pointer := func(field int, into **float64) {
		if f, given := real(field); given {
			*into = new(f)
		}
	}
	text(fieldID, &row.ID)
	text(fieldPrompt, &row.Prompt)
	text(fieldMedia, &row.Media)
	if r.values[r.needed].Kind == typed.Absent || r.needed == fieldMedia && row.Media == "" {
		fail(r.needed, errors.New("the value is missing"))
	}
	text(fieldNegativePrompt, &row.NegativePrompt)
	if seed, given, err := r.integer(fieldSeed); given {
		fail(fieldSeed, err)
		row.Seed = new(seed)
	}
	whole(fieldHeight, &row.Height)
	whole(fieldWidth, &row.Width)
	if !r.empty(fieldSize) && row.Height == 0 && row.Width == 0 {
		var err error
		row.Width, row.Height, err = sizeOf(r.values[fieldSize].Text)
		fail(fieldSize, err)
	}
	whole(fieldNumFrames, &row.NumFrames)
	row.FPS, _ = real(fieldFPS)
	whole(fieldSteps, &row.NumInferenceSteps)
	pointer(fieldGuidance, &row.GuidanceScale)
	whole(fieldMaxLength, &row.MaxSequenceLength)
	whole(fieldNumVideos, &row.NumVideosPerPrompt)
	fillLater(row, text, whole, pointer)
	r.sample = nil
	if n, given, err := r.integer(fieldSample); given {
		fail(fieldSample, err)
		r.sample = new(int(n))
	}
	r.moveSuffix(row)
	return first
}

// sizeForm matches a size in the form of Wan and of most others: width first.
var sizeForm = regexp.MustCompile(`^\s*(\d{1,5})\s*[*xX×]\s*(\d{1,5})\s*$`)

// sizeOf parses "832*480" or "832x480".
func sizeOf(text string) (width, height int, err error) {
	m := sizeForm.FindStringSubmatch(text)
	if m == nil {
		return 0, 0, fmt.Errorf("%q is no size", schemas.ValidText(text, maxGiven))
	}
	for i, into := range []*int{&width, &height} {
		if *into, _ = strconv.Atoi(m[i+1]); *into < 1 || *into > schemas.MaxSide {
			return 0, 0, fmt.Errorf("%q has a side beyond 1 to %d", text, schemas.MaxSide)
		}
	}
	return width, height, nil
}

// fillLater stores the fields of later versions, with the functions of fill.
func fillLater(row *schemas.PromptRow, text func(int, *string), whole func(int, *int),
	pointer func(int, **float64)) {
	text(fieldResolution, &row.Resolution)
	text(fieldAspectRatio, &row.AspectRatio)
	text(fieldAes, &row.Aes)
	text(fieldFlow, &row.Flow)
	text(fieldCameraMotion, &row.CameraMotion)
	text(fieldReference, &row.Reference)
	text(fieldMaskStrategy, &row.MaskStrategy)
	row.Resolution = strings.TrimSuffix(row.Resolution, ".0") // 512.0 in a column with missing values
	whole(fieldLoop, &row.Loop)
	whole(fieldConditionLength, &row.ConditionFrameLength)
	pointer(fieldConditionEdit, &row.ConditionFrameEdit)
	pointer(fieldGuidance2, &row.GuidanceScale2)
	text(fieldNoise, &row.Noise)
}

// empty reports whether the row has no value for a number.
func (r *rawRow) empty(field int) bool {
	v := r.values[field]
	return v.Kind == typed.Absent || v.Kind == typed.TextValue && strings.TrimSpace(v.Text) == ""
}

func (r *rawRow) integer(field int) (n int64, given bool, err error) {
	if r.empty(field) {
		return 0, false, nil
	}
	if text := strings.TrimSpace(r.values[field].Text); field == fieldNumFrames && schemas.IsLength(text) { // "4s"
		fps, given, err := r.real(fieldFPS)
		if !given || err != nil {
			fps = r.fps
		}
		frames, err := r.naming.Frames(text, fps)
		return int64(frames), true, err
	}
	if n, err = r.values[field].Integer(); err == nil {
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
	if f, err = r.values[field].Real(); err == nil {
		err = schemas.Fields()[field].CheckReal(f)
	}
	if err != nil {
		f = 0
	}
	return f, true, err
}

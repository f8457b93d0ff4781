package config

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"latentbeam/internal/config/document"
	"latentbeam/schemas"
)

// StringList is a list of texts that may be written as a single text.
type StringList []string

func (l *StringList) fromNode(n *document.Node) (string, bool) {
	const wanted = "a text or a list of texts"
	switch n.Kind {
	case document.TextKind:
		*l = StringList{n.Text}
		return wanted, n.Text != ""
	case document.ListKind:
		*l = (*l)[:0:0]
		for _, item := range n.Items {
			item = item.UndoMap()
			if item.Kind != document.TextKind || item.Text == "" {
				return wanted, false
			}
			*l = append(*l, item.Text)
		}
		return wanted, true
	}
	return wanted, false
}

// Name is a text that may look like a number, such as the resolution 512 or the score 6.5.
type Name string

func (m *Name) fromNode(n *document.Node) (string, bool) {
	switch n.Kind {
	case document.TextKind, document.IntKind, document.FloatKind:
		*m = Name(n.Text)
		return "", true
	}
	return "a text or a number", false
}

// Length is a number of frames. It may be written as a time: "4s" is 102 frames until SetLength knows the job's models.
type Length int

func (l *Length) fromNode(n *document.Node) (string, bool) {
	const wanted = `a whole number or a length such as "4s"`
	switch {
	case n.Kind == document.IntKind && n.Int >= math.MinInt32 && n.Int <= math.MaxInt32:
		*l = Length(n.Int)
		return wanted, true
	case n.Kind == document.TextKind:
		frames, err := schemas.FramesByName(n.Text)
		if err != nil && schemas.IsLength(n.Text) {
			frames = 1 // the number depends on the model, which is not known yet
		}
		*l = Length(frames)
		return wanted, frames > 0
	}
	return wanted, false
}

// Duration is a time written as "30s", "2m" or "1h30m".
type Duration time.Duration

func (d *Duration) fromNode(n *document.Node) (string, bool) {
	const wanted = `a time with its unit, such as 30s, 2m or 1h`
	if n.Kind != document.TextKind {
		return wanted, false
	}
	v, err := time.ParseDuration(n.Text)
	if err != nil || v < 0 {
		return wanted, false
	}
	*d = Duration(v)
	return wanted, true
}

// MarshalJSON encodes the duration as in a file.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

// Interval is how often the steps of a sampler are saved: after a time of work ("2m"), after each step ("1step") or
// never ("off"). The zero value is the default, DefaultInterval.
type Interval time.Duration

// DefaultInterval is the interval of jobs that give none.
const DefaultInterval = 2 * time.Minute

const (
	everyStep Interval = -1
	neverSave Interval = -2
)

// Every returns the time of work between two saves; 0 means a save after each step. on is false if steps are not saved.
func (i Interval) Every() (every time.Duration, on bool) {
	switch i {
	case 0:
		return DefaultInterval, true
	case everyStep:
		return 0, true
	case neverSave:
		return 0, false
	}
	return time.Duration(i), true
}

func (i *Interval) fromNode(n *document.Node) (string, bool) {
	const wanted = `a time of work such as 2m or 30s, "1step" or "off"`
	switch {
	case n.Kind != document.TextKind:
		return wanted, false
	case n.Text == "1step":
		*i = everyStep
		return wanted, true
	case n.Text == "off":
		*i = neverSave
		return wanted, true
	}
	v, err := time.ParseDuration(n.Text)
	if *i = Interval(v); v == DefaultInterval {
		*i = 0 // a job that writes the default equals a job without it
	}
	return wanted, err == nil && v > 0
}

// MarshalJSON encodes the interval as in a file.
func (i Interval) MarshalJSON() ([]byte, error) {
	switch i {
	case everyStep:
		return json.Marshal("1step")
	case neverSave:
		return json.Marshal("off")
	}
	every, _ := i.Every()
	return json.Marshal(every.String())
}

// ByteSize is an amount of memory or disk written as "512MiB", "2GiB" or "2GB"; a bare number is bytes.
type ByteSize int64

var byteUnits = []struct {
	suffix string
	bytes  float64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1},
}

func (s *ByteSize) fromNode(n *document.Node) (string, bool) {
	const wanted = "a size such as 512MiB or 2GiB"
	if n.Kind == document.IntKind && n.Int > 0 {
		*s = ByteSize(n.Int)
		return wanted, true
	}
	return wanted, n.Kind == document.TextKind && s.Set(n.Text) == nil
}

// Set parses a size with its unit. Set, String and Type implement pflag.Value.
func (s *ByteSize) Set(text string) error {
	for _, u := range byteUnits {
		number, ok := strings.CutSuffix(text, u.suffix)
		if !ok {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil || !(v > 0) || v*u.bytes > math.MaxInt64/2 {
			break
		}
		*s = ByteSize(v * u.bytes)
		return nil
	}
	return errors.New("write a size with its unit, such as 512MiB or 2GiB")
}

// String formats the size in the largest decimal unit that gives at least 1, such as "4.84 GB".
func (s ByteSize) String() string {
	for _, u := range []struct {
		suffix string
		bytes  float64
	}{{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}} {
		if float64(s) >= u.bytes {
			return strconv.FormatFloat(float64(s)/u.bytes, 'g', 3, 64) + " " + u.suffix
		}
	}
	return strconv.FormatInt(int64(s), 10) + " bytes"
}

// Type returns the name of the value in the help of a flag.
func (s *ByteSize) Type() string { return "size" }

// Tolerance is how many rows may fail: a fraction of the rows ("5%", 0.05) or a number of rows (20).
type Tolerance struct {
	Fraction float64 // fraction of the rows seen, if ByCount is false
	Count    int64   // number of rows, if ByCount is true
	ByCount  bool
}

func (t *Tolerance) fromNode(n *document.Node) (string, bool) {
	const wanted = "a part such as 5% or 0.05, or a number of rows such as 20"
	part := func(v float64) (string, bool) {
		*t = Tolerance{Fraction: v}
		return wanted, v >= 0 && v <= 1
	}
	switch n.Kind {
	case document.IntKind:
		*t = Tolerance{Count: n.Int, ByCount: true}
		return wanted, n.Int >= 0
	case document.FloatKind:
		return part(n.Float)
	case document.TextKind:
		number, ok := strings.CutSuffix(n.Text, "%")
		v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if !ok || err != nil {
			return wanted, false
		}
		return part(v / 100)
	}
	return wanted, false
}

// MarshalJSON encodes the number or the fraction.
func (t Tolerance) MarshalJSON() ([]byte, error) {
	if t.ByCount {
		return strconv.AppendInt(nil, t.Count, 10), nil
	}
	return json.Marshal(strconv.FormatFloat(t.Fraction*100, 'g', -1, 64) + "%")
}

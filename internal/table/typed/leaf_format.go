package typed

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"latentbeam/internal/table/pages"
	"latentbeam/kernels"
	"latentbeam/schemas"
)

// leafKind is the meaning of a parquet column's values.
type leafKind int

const (
	RawLeaf leafKind = iota // bytes that are not text
	TextLeaf
	jsonLeaf
	boolLeaf
	intLeaf
	uintLeaf
	realLeaf
	decimalLeaf
	dateLeaf
	clockLeaf
	instantLeaf
	instant96Leaf
	uuidLeaf
	HalfLeaf // two bytes that are a number
)

// Format converts the values of one column to fields and JSON.
type Format struct {
	Kind  leafKind
	scale int           // of decimals
	unit  time.Duration // of times
}

// FormatOf returns the format of a leaf column of a file.
func FormatOf(file *pages.Parquet, c *parquet.Column) Format {
	if file.IsHalf(c) {
		return Format{Kind: HalfLeaf}
	}
	typ := c.Type()
	if logical := typ.LogicalType(); logical != nil {
		switch t := logical.Value.(type) {
		case *format.StringType, *format.EnumType:
			return Format{Kind: TextLeaf}
		case *format.JsonType:
			return Format{Kind: jsonLeaf}
		case *format.DecimalType:
			return Format{Kind: decimalLeaf, scale: int(t.Scale)}
		case *format.DateType:
			return Format{Kind: dateLeaf}
		case *format.TimeType:
			return Format{Kind: clockLeaf, unit: unitOf(t.Unit)}
		case *format.TimestampType:
			return Format{Kind: instantLeaf, unit: unitOf(t.Unit)}
		case *format.UUIDType:
			return Format{Kind: uuidLeaf}
		case *format.IntType:
			if !t.IsSigned {
				return Format{Kind: uintLeaf}
			}
		}
	}
	return Format{Kind: map[parquet.Kind]leafKind{parquet.Boolean: boolLeaf, parquet.Int32: intLeaf,
		parquet.Int64: intLeaf, parquet.Int96: instant96Leaf, parquet.Float: realLeaf,
		parquet.Double: realLeaf}[typ.Kind()]}
}

func unitOf(u format.TimeUnit) time.Duration {
	if u.Value == nil {
		return time.Nanosecond
	}
	return u.Value.Duration()
}

// Value converts v for a field. Bytes without a logical type count as text here, because old writers omitted the type.
func (f Format) Value(v parquet.Value) Cell {
	if v.IsNull() {
		return Cell{}
	}
	switch f.Kind {
	case TextLeaf, RawLeaf, jsonLeaf:
		if v.Kind() != parquet.ByteArray && v.Kind() != parquet.FixedLenByteArray {
			return Cell{Kind: OtherValue, Text: "(bytes)"}
		}
		b := v.ByteArray()
		if len(b) > MaxRecordBytes {
			b = b[:MaxRecordBytes]
		}
		return Cell{Kind: TextValue, Text: string(b)}
	case boolLeaf:
		return Cell{Kind: BoolValue, Text: strconv.FormatBool(v.Boolean())}
	case intLeaf:
		n := signed(v)
		return Cell{Kind: IntegerValue, Text: strconv.FormatInt(n, 10), Int: n}
	case uintLeaf:
		n := unsigned(v)
		if n > math.MaxInt64 {
			return Cell{Kind: TextValue, Text: strconv.FormatUint(n, 10)}
		}
		return Cell{Kind: IntegerValue, Text: strconv.FormatUint(n, 10), Int: int64(n)}
	case realLeaf, HalfLeaf:
		n := f.Real(v)
		return Cell{Kind: RealValue, Text: strconv.FormatFloat(n, 'g', -1, 64), Float: n}
	case decimalLeaf:
		return Cell{Kind: TextValue, Text: f.decimal(v)}
	}
	return Cell{Kind: OtherValue, Text: f.text(v)}
}

// JSON converts v to JSON for the carried columns. fault says why the JSON does not represent the value, or is "".
func (f Format) JSON(v parquet.Value) (text []byte, fault string) {
	if v.IsNull() {
		return []byte("null"), ""
	}
	switch f.Kind {
	case boolLeaf:
		return strconv.AppendBool(nil, v.Boolean()), ""
	case intLeaf:
		return strconv.AppendInt(nil, signed(v), 10), ""
	case uintLeaf:
		return strconv.AppendUint(nil, unsigned(v), 10), ""
	case decimalLeaf:
		return []byte(f.decimal(v)), ""
	case realLeaf, HalfLeaf:
		n := f.Real(v)
		if math.IsNaN(n) || math.IsInf(n, 0) {
			return []byte("null"), "" // JSON has no NaN
		}
		out, _ := json.Marshal(n) // a finite number cannot fail
		return out, ""
	case TextLeaf, jsonLeaf:
		b := v.ByteArray()
		if len(b) > MaxExtraBytes {
			return []byte("null"), fmt.Sprintf("%d bytes are too many for a column that is carried along", len(b))
		}
		if !utf8.Valid(b) {
			fault = "not valid UTF-8"
		}
		if f.Kind == jsonLeaf && fault == "" && json.Valid(b) {
			return append([]byte(nil), b...), ""
		}
		return AppendJSONText(nil, schemas.ValidText(string(b), MaxExtraBytes)), fault
	}
	return AppendJSONText(nil, f.text(v)), ""
}

// text formats v as a person would write it, for types that JSON does not have.
func (f Format) text(v parquet.Value) string {
	switch f.Kind {
	case dateLeaf:
		return time.Unix(0, 0).UTC().AddDate(0, 0, int(signed(v))).Format(time.DateOnly)
	case clockLeaf:
		return time.Unix(0, 0).UTC().Add(time.Duration(signed(v)) * f.unit).Format("15:04:05.999999999")
	case instantLeaf:
		return instant(signed(v), f.unit).Format(time.RFC3339Nano)
	case instant96Leaf:
		const julianUnixEpoch = 2440588 // Impala's timestamps: nanoseconds of a Julian day
		i := v.Int96()
		nanos := int64(i[1])<<32 | int64(i[0])
		days := int64(i[2]) - julianUnixEpoch
		return time.Unix(days*24*60*60, nanos).UTC().Format(time.RFC3339Nano)
	case uuidLeaf:
		if b := v.ByteArray(); len(b) == 16 {
			return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
		}
	}
	return schemas.ValidText(v.String(), MaxExtraBytes)
}

func instant(n int64, unit time.Duration) time.Time {
	switch unit {
	case time.Millisecond:
		return time.UnixMilli(n).UTC()
	case time.Microsecond:
		return time.UnixMicro(n).UTC()
	}
	return time.Unix(0, n).UTC()
}

// Real converts a value of a column of real numbers.
func (f Format) Real(v parquet.Value) float64 {
	switch {
	case f.Kind == HalfLeaf:
		if b := v.ByteArray(); len(b) == 2 {
			return float64(kernels.F16.At(b, 0))
		}
		return math.NaN()
	case v.Kind() == parquet.Float:
		n, _ := strconv.ParseFloat(strconv.FormatFloat(float64(v.Float()), 'g', -1, 32), 64)
		return n // 4.1 stored as float32 becomes 4.1 again
	}
	return v.Double()
}

// decimal formats a decimal with all digits.
func (f Format) decimal(v parquet.Value) string {
	n := new(big.Int)
	switch v.Kind() {
	case parquet.Int32, parquet.Int64:
		n.SetInt64(signed(v))
	default: // big-endian two's complement
		b := v.ByteArray()
		n.SetBytes(b)
		if len(b) > 0 && b[0] >= 0x80 {
			n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
		}
	}
	const maxScale = 100 // writers use up to 76
	if f.scale <= 0 || f.scale > maxScale {
		return n.String()
	}
	digits := new(big.Int).Abs(n).String()
	if missing := f.scale + 1 - len(digits); missing > 0 {
		digits = strings.Repeat("0", missing) + digits
	}
	text := digits[:len(digits)-f.scale] + "." + digits[len(digits)-f.scale:]
	if n.Sign() < 0 {
		text = "-" + text
	}
	return text
}

func signed(v parquet.Value) int64 {
	if v.Kind() == parquet.Int32 {
		return int64(v.Int32())
	}
	return v.Int64()
}

func unsigned(v parquet.Value) uint64 {
	if v.Kind() == parquet.Int32 {
		return uint64(v.Uint32())
	}
	return v.Uint64()
}

package typed

import (
	"testing"

	"github.com/parquet-go/parquet-go"
)

// TestKindNames: a message about a parquet value that no field accepts names its type, as in "seed: a date or a time is not a
// whole number".
func TestKindNames(t *testing.T) {
	for want, v := range map[string]struct {
		format Format
		value  parquet.Value
	}{
		"a date or a time": {Format{Kind: dateLeaf}, parquet.Int32Value(20000)},
		"a UUID":           {Format{Kind: uuidLeaf}, parquet.FixedLenByteArrayValue([]byte("0123456789abcdef"))},
		"a number":         {Format{Kind: realLeaf}, parquet.DoubleValue(1.5)},
		"a boolean":        {Format{Kind: boolLeaf}, parquet.BooleanValue(true)},
		"a text":           {Format{Kind: TextLeaf}, parquet.ByteArrayValue([]byte("a cat"))},
	} {
		if got := v.format.Value(v.value).KindName(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

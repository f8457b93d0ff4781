package read

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/parquet-go/parquet-go"

	"latentbeam/internal/table/pages"
	"latentbeam/internal/table/typed"
)

// nestedJSON puts together a row's value of a column of lists, structs or maps.
func (c *parquetColumn) nestedJSON() (text []byte, fault string, err error) {
	var row parquet.Row
	var damage *pages.DamageError // of one leaf, whose row the others pass all the same
	for i, leaf := range c.leaves {
		for more := true; more; {
			v, err := leaf.Next()
			if errors.As(err, &damage) {
				break
			}
			if err != nil {
				return nil, "", err
			}
			if len(row) < typed.MaxNestedValues {
				row = append(row, v.Clone().Level(v.RepetitionLevel(), v.DefinitionLevel(), i))
			}
			if more, err = leaf.Continues(); err != nil {
				return nil, "", err
			}
		}
	}
	if damage != nil {
		return nil, "", damage
	}
	if len(row) >= typed.MaxNestedValues {
		return []byte("null"), fmt.Sprintf("more than %d values in one row", typed.MaxNestedValues), nil
	}
	out := map[string]any{}
	if err := c.nested.Reconstruct(&out, row); err != nil {
		return nil, "", err
	}
	if text, err = json.Marshal(out[c.name]); err != nil {
		return []byte("null"), err.Error(), nil
	}
	return text, "", nil
}

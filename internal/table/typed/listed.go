package typed

import (
	"fmt"
	"strings"

	"latentbeam/schemas"
)

// ShownName returns the name of a column for a message. A table without a header has a row instead of the names, including its
// prompt, and prompts are private.
func ShownName(column string) string {
	const mostBytes, mostWords = 60, 3
	if len(column) > mostBytes || len(strings.Fields(column)) > mostWords {
		return fmt.Sprintf("(a text of %d bytes)", len(column))
	}
	return schemas.ValidText(column, mostBytes)
}

// Listed lists columns for a message, at most 20 of them.
func Listed(columns []string) string {
	const most = 20
	var quoted []string
	for i, c := range columns {
		if i == most {
			quoted = append(quoted, fmt.Sprintf("and %d more", len(columns)-most))
			break
		}
		quoted = append(quoted, ShownName(c))
	}
	if len(quoted) == 0 {
		return "(none)"
	}
	return strings.Join(quoted, ", ")
}

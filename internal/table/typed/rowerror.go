package typed

// RowError says why one row cannot be used. It does not concern other rows.
type RowError struct {
	Source  string // "shapes.csv:17"
	Column  string // the wrong field, "" for the whole row
	Problem string
	Fix     string
	Others  []string          // errors of some other fields
	Given   map[string]string // the wrong fields, as in the table
	Tensor  bool              // only a tensor of the row is wrong; everything else was read
}

// Error names the place and the reason, and says what to do.
func (e *RowError) Error() string {
	text := e.Source + ": "
	if e.Column != "" {
		text += e.Column + ": "
	}
	text += e.Problem
	if e.Fix != "" {
		text += "; " + e.Fix
	}
	for _, other := range e.Others {
		text += "; also " + other
	}
	return text
}

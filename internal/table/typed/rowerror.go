package typed

// RowError is why one row cannot be made into a video. It concerns no other row.
type RowError struct {
	Source  string // "shapes.csv:17"
	Column  string // the field at fault, "" for the whole row
	Problem string
	Fix     string
	Others  []string          // what is wrong with other fields, at most maxOthers
	Given   map[string]string // the fields at fault, as the table has them
	Tensor  bool              // only a tensor of the row is at fault, everything else was read
}

// Error says where, what, why and what to do.
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

package read

// MaxFiles limits how many files the patterns of one input may name.
const MaxFiles = 1 << 20

// Limits for reading. A larger table is refused with the number; it is never read partially.
const (
	maxColumns = 4096

	// jsonlProbeRows is how many first rows of a jsonl file may lack a prompt before the whole file is an error.
	jsonlProbeRows = 100

	readBufferBytes = 256 << 10
)

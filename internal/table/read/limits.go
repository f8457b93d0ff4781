package read

// MaxFiles is how many files the patterns of one input may name.
const MaxFiles = 1 << 20

// Limits of what is read. A table beyond them is refused with the number, never half read.
const (
	maxColumns = 4096

	// jsonlProbeRows is how many rows of a jsonl file may lack a prompt before the whole file is at fault.
	jsonlProbeRows = 100

	readBufferBytes = 256 << 10
)

package read

// Limits of what is read. A table beyond them is refused with the number, never half read.
const (
	maxColumns = 4096
	maxFiles   = 1 << 20 // that the patterns of one input may name

	// jsonlProbeRows is how many rows of a jsonl file may lack a prompt before the whole file is at fault.
	jsonlProbeRows = 100

	readBufferBytes = 256 << 10
)

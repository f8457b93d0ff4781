package torchpickle

// Limits for reading. The largest published checkpoint has about 1000 tensors and a pickle of 150 kB.
const (
	// maxPickle limits the size of one pickle in bytes.
	maxPickle = 16 << 20
	// maxSteps limits the instructions of one pickle, about 25 for each tensor. An instruction allocates at most some hundred
	// bytes, besides its text.
	maxSteps = 1 << 20
	// maxEntries limits the files in a zip archive: one for each storage, and a few more.
	maxEntries = 1 << 17
	// maxDirectory limits the directory of a zip archive in bytes.
	maxDirectory = 32 << 20
	// maxAxes limits the rank of a tensor, as in safetensors.
	maxAxes = 16
	// maxDepth limits how deep a state dict may be nested in other dicts.
	maxDepth = 4
	// maxDicts limits the number of dicts with tensors in a file.
	maxDicts = 64
	// maxName limits the name of a tensor; the longest published names have some hundred bytes.
	maxName = 1024
	// maxText limits how much of a text in the file an error shows.
	maxText = 120
)

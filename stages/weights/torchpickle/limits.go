package torchpickle

// Limits of what is read. The largest published checkpoint has some 1000 tensors and a pickle of 150 kB.
const (
	// maxPickle bounds the bytes of one pickle.
	maxPickle = 16 << 20
	// maxSteps bounds the instructions of one pickle, about 25 for each tensor. An instruction keeps at most
	// some hundred bytes, and the text it holds.
	maxSteps = 1 << 20
	// maxEntries bounds the files in a zip archive: one for each storage, and a few more.
	maxEntries = 1 << 17
	// maxDirectory bounds the directory of a zip archive in bytes.
	maxDirectory = 32 << 20
	// maxAxes bounds the rank of a tensor, as in safetensors.
	maxAxes = 16
	// maxDepth bounds how deep a state dict may lie in other dicts.
	maxDepth = 4
	// maxDicts bounds how many dicts with tensors a file holds.
	maxDicts = 64
	// maxName bounds the name of a tensor; the longest published ones have some hundred bytes.
	maxName = 1024
	// maxText bounds what an error shows of a text in the file.
	maxText = 120
)

// Package checkpoint handles the files that contain weights: safetensors files and their shards, GGUF, PyTorch pickles, and the
// directories in which model hubs publish them. It lists their tensors (Open) and rewrites them as safetensors (Convert), piece
// by piece, so that memory does not grow with the file.
//
// It does not interpret the tensors: the packages of the models decide which model a checkpoint is. Pickles are read by
// torchpickle, which executes nothing. To add a format, write a reader in open.go; to add a file name that hubs use, add a line
// in names.go.
//
// The package is not under internal because models and jobs of this program share it. But it is not public
// (internal/dev/layers/public_test.go): it may change at any time.
package checkpoint

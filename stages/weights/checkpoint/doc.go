// Package checkpoint knows the files that weights come in: a safetensors file or shards of one, GGUF, PyTorch
// pickles, and the directories that model hubs publish them in. It lists their tensors (Open) and rewrites
// them as safetensors (Convert), a piece at a time, so that memory does not grow with the file.
//
// What the tensors mean never enters: which model a checkpoint is, is the business of the model packages.
// Pickles are read by torchpickle, which runs nothing. A new format is a reader in open.go; a new name that
// hubs use is a line in names.go.
//
// It is not under internal because models and jobs of this program share it, but it is no part of the public face
// (internal/dev/layers/public_test.go): it may change at any time.
package checkpoint

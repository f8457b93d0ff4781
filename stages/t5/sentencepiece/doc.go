// Package sentencepiece turns text into piece ids exactly as the SentencePiece library 0.2.3 does for Unigram models (Kudo
// 2018, arXiv:1804.10959; file format sentencepiece_model.proto), and as T5 uses it (Tokenizer).
//
// It reads the published .model files and needs only the standard library. It does not implement training, decoding to text,
// sampling, or BPE, word and char models; Load refuses these models by name. To support another option of the format, start in
// spec.go (which field), and end in normalize.go or encode.go.
//
// The package is not under internal because models and jobs of this program share it. But it is not public
// (internal/dev/layers/public_test.go): it may change at any time.
package sentencepiece

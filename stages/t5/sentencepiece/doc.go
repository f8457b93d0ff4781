// Package sentencepiece turns text into piece ids exactly as the SentencePiece library 0.2.3 does for
// Unigram models (Kudo 2018, arXiv:1804.10959; file format sentencepiece_model.proto), and as T5 wraps it
// (Tokenizer).
//
// It reads the published .model files and needs only the standard library. Training, decoding back to text,
// sampling and the BPE, word and char models do not belong here; Load refuses the latter by name.
// One more option of the format starts in spec.go (which field), and ends in normalize.go or encode.go.
//
// It is not under internal because models and jobs of this program share it, but it is no part of the public face
// (internal/dev/layers/public_test.go): it may change at any time.
package sentencepiece

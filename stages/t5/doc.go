// Package t5 is the text encoder: T5 v1.1 (arXiv:1910.10683, arXiv:2002.05202) of Open-Sora, mT5 of Open-Sora-Plan and UMT5 of
// Wan. It implements only the encoder, with the tensor names of transformers' encoder models. variant.go lists the differences:
// UMT5 has relative positions in every block, and each model has its own tokenizer and text cleaning.
//
// Encoder takes token ids and returns the last hidden state. It does not know tokenizers, rows or padding: each prompt has its
// own length. Another text encoder is a separate package beside this one.
package t5

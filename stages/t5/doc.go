// Package t5 is the text encoder: T5 v1.1 (arXiv:1910.10683, arXiv:2002.05202), encoder only, by the
// tensor names of transformers' T5EncoderModel.
//
// Token ids come in, the last hidden state goes out. Tokenizers, prompts as rows and padding never enter:
// each prompt has its own length. Another text encoder is a package of its own beside this one.
package t5

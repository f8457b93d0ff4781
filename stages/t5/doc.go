// Package t5 is the text encoder: T5 v1.1 (arXiv:1910.10683, arXiv:2002.05202) of Open-Sora, mT5 of Open-Sora-Plan and
// UMT5 of Wan, encoder only, by the tensor names of transformers' encoder models. kin.go says in what they differ: UMT5
// has relative positions in every block, and each has a tokenizer and a cleaning of its own.
//
// Token ids come in, the last hidden state goes out. Tokenizers, prompts as rows and padding never enter:
// each prompt has its own length. Another text encoder is a package of its own beside this one.
package t5

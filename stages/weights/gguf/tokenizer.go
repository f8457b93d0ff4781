package gguf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// maxPieces limits a vocabulary, as in sentencepiece.
const maxPieces = 1 << 20

// The relevant types of pieces, with the numbers of sentencepiece.
const (
	pieceNormal = 1
	pieceUnused = 5
	pieceByte   = 6
)

// tokenizer returns the tokenizer of a T5 encoder as a spiece.model (sentencepiece_model.proto), nil if the file has none. The
// error says what an incomplete tokenizer lacks.
func (h *header) tokenizer() ([]byte, error) {
	const under = "tokenizer.ggml."
	model, ok := h.values[under+"model"]
	if !ok {
		return nil, nil
	}
	if kind := model.text(); kind != "t5" {
		return nil, fmt.Errorf("its tokenizer is of the kind %q, T5's is \"t5\"", shorten(kind))
	}
	tokens, scores, kinds := h.values[under+"tokens"], h.values[under+"scores"], h.values[under+"token_type"]
	n := tokens.n
	if !tokens.array || tokens.kind != kindString || n > maxPieces || !scores.array || scores.kind != kindF32 || scores.n != n ||
		!kinds.array || kinds.kind != kindI32 && kinds.kind != kindU32 || kinds.n != n {
		return nil, errors.New("its tokenizer must have one score and one type for each token")
	}
	charsmap := h.values[under+"precompiled_charsmap"]
	if !charsmap.array || charsmap.kind != kindI8 && charsmap.kind != kindU8 {
		return nil, errors.New("its tokenizer has no precompiled_charsmap, without which accents and wide characters get other ids")
	}
	texts, types := make([]string, n), make([]uint32, n)
	for c, i := (&cursor{in: tokens.data}), 0; i < len(texts); i++ {
		b, _ := c.skipText() // parsed once before
		texts[i], types[i] = string(b), binary.LittleEndian.Uint32(kinds.data[4*i:])
	}
	special := func(name string) (string, error) {
		id, ok := h.values[under+name+"_token_id"].number()
		if !ok || id >= n {
			return "", fmt.Errorf("its tokenizer has no %s_token_id among its %d tokens", name, n)
		}
		return texts[id], nil
	}
	var out, trainer, normalizer []byte
	for _, s := range []struct {
		name  string
		field protowire.Number
	}{{"unknown", 45}, {"eos", 47}, {"padding", 48}} {
		text, err := special(s.name)
		if err != nil {
			return nil, err
		}
		trainer = protowire.AppendString(protowire.AppendTag(trainer, s.field, protowire.BytesType), text)
	}
	flag := func(to []byte, field protowire.Number, set bool) []byte {
		return protowire.AppendVarint(protowire.AppendTag(to, field, protowire.VarintType), protowire.EncodeBool(set))
	}
	trainer = flag(trainer, 35, slices.Contains(types, pieceByte)) // byte_fallback
	normalizer = protowire.AppendBytes(protowire.AppendTag(normalizer, 2, protowire.BytesType), charsmap.data)
	normalizer = flag(normalizer, 3, h.flag(under+"add_space_prefix"))
	normalizer = flag(normalizer, 4, h.flag(under+"remove_extra_whitespaces"))
	for i, text := range texts[:pieces(texts, types)] {
		var p []byte
		p = protowire.AppendString(protowire.AppendTag(p, 1, protowire.BytesType), text)
		p = protowire.AppendFixed32(protowire.AppendTag(p, 2, protowire.Fixed32Type), binary.LittleEndian.Uint32(scores.data[4*i:]))
		p = protowire.AppendVarint(protowire.AppendTag(p, 3, protowire.VarintType), uint64(types[i]))
		out = protowire.AppendBytes(protowire.AppendTag(out, 1, protowire.BytesType), p)
	}
	if len(out) > math.MaxInt32 {
		return nil, errors.New("its tokenizer is too large")
	}
	out = protowire.AppendBytes(protowire.AppendTag(out, 2, protowire.BytesType), trainer)
	return protowire.AppendBytes(protowire.AppendTag(out, 3, protowire.BytesType), normalizer), nil
}

// flag returns a boolean value, true if there is none.
func (h *header) flag(key string) bool {
	v, ok := h.values[key]
	return !ok || v.array || v.kind != kindBool || v.data[0] != 0
}

// pieces returns how many tokens are pieces of the published spiece.model. After them llama.cpp writes tokens that fill up the
// embedding ([PAD32100]) and the extra ids, which T5's tokenizer knows without them.
func pieces(texts []string, types []uint32) int {
	n := len(texts)
	for n > 0 && types[n-1] != pieceNormal &&
		(types[n-1] == pieceUnused && strings.HasPrefix(texts[n-1], "[PAD") || strings.HasPrefix(texts[n-1], "<extra_id_")) {
		n--
	}
	return n
}

package sentencepiece

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Limits of the files that Load accepts. The largest published Unigram vocabularies have 250,000 pieces in 5 MB. With the
// trainer's default a piece has at most 16 characters. The longest replacement of NFKC has 33 bytes.
const (
	maxModelBytes       = 32 << 20
	maxPieces           = 1 << 20
	maxPieceBytes       = 1024
	maxReplacementBytes = 1024
)

// unknownPenalty is the difference between the worst piece's score and an unknown character's (kUnkPenalty).
const unknownPenalty = 10

// Model is a loaded Unigram model. It is read-only after Load and safe for concurrent use.
type Model struct {
	pieces       []vocabPiece
	ids          *trie // normal, user-defined and unused pieces
	symbols      *trie // user-defined pieces, which are not normalised; nil if there are none
	charsmap     *charsmap
	unk          int32
	eos, pad     int32
	unknownScore float32
	bytes        *[256]int32 // ids of <0x00> to <0xFF> if the model has byte fallback
	dummyPrefix  bool
	trimSpace    bool
	spaceSuffix  bool
	space        string
}

// Load parses a .model file. It does not keep data. It returns an error for a file that is malformed, larger than the limits,
// or not a Unigram model.
func Load(data []byte) (*Model, error) {
	if len(data) > maxModelBytes {
		return nil, fmt.Errorf("load sentencepiece model: %d bytes, limit %d", len(data), maxModelBytes)
	}
	s, err := parseSpec(data)
	if err != nil {
		return nil, fmt.Errorf("load sentencepiece model: %w", err)
	}
	m, err := newModel(s)
	if err != nil {
		return nil, fmt.Errorf("load sentencepiece model: %w", err)
	}
	return m, nil
}

func newModel(s *spec) (*Model, error) {
	if s.modelType != unigram {
		name := modelTypes[s.modelType]
		return nil, fmt.Errorf("model type is %d (%s), want %d (unigram)", s.modelType, name, unigram)
	}
	rules, err := parseCharsmap(s.charsmap)
	if err != nil {
		return nil, fmt.Errorf("precompiled charsmap: %w", err)
	}
	m := &Model{
		pieces: s.pieces, charsmap: rules,
		dummyPrefix: s.dummyPrefix, trimSpace: s.trimSpace, spaceSuffix: s.spaceSuffix, space: " ",
	}
	if s.escapes {
		m.space = "\u2581"
	}
	if err := m.index(); err != nil {
		return nil, err
	}
	m.eos, m.pad = m.controlID(s.eosPiece), m.controlID(s.padPiece)
	if s.byteFallback {
		if m.bytes, err = m.byteIDs(); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// index builds the tries and finds the unknown piece and its score.
func (m *Model) index() error {
	var all, symbols []trieEntry
	lowest := float32(math.MaxFloat32)
	m.unk = -1
	for i, p := range m.pieces {
		switch p.kind {
		case unknown:
			if m.unk >= 0 {
				return fmt.Errorf("pieces %d and %d are both the unknown piece", m.unk, i)
			}
			m.unk = int32(i)
		case normal:
			lowest = min(lowest, p.score)
		case userDefined:
			symbols = append(symbols, trieEntry{p.text, int32(i)})
		}
		all = append(all, trieEntry{p.text, int32(i)})
	}
	if m.unk < 0 {
		return fmt.Errorf("no piece is the unknown piece (among %d pieces)", len(m.pieces))
	}
	m.unknownScore = lowest - unknownPenalty
	byKey := func(a, b trieEntry) int { return strings.Compare(a.key, b.key) }
	slices.SortFunc(all, byKey)
	for i := 1; i < len(all); i++ {
		if all[i].key == all[i-1].key {
			return fmt.Errorf("pieces %d and %d are both %q", all[i-1].id, all[i].id, all[i].key)
		}
	}
	m.ids = newTrie(slices.DeleteFunc(all, func(e trieEntry) bool { return !m.matchesText(e.id) }))
	if len(symbols) > 0 {
		slices.SortFunc(symbols, byKey)
		m.symbols = newTrie(symbols)
	}
	return nil
}

// matchesText is false for pieces that never match text: unknown, control and byte pieces.
func (m *Model) matchesText(id int32) bool {
	k := m.pieces[id].kind
	return k == normal || k == userDefined || k == unused
}

func (m *Model) controlID(text string) int32 {
	for i, p := range m.pieces {
		if p.kind == control && p.text == text {
			return int32(i)
		}
	}
	return -1
}

func (m *Model) byteIDs() (*[256]int32, error) {
	var ids [256]int32
	found := 0
	for i, p := range m.pieces {
		if p.kind != byteValue {
			continue
		}
		hex, ok := strings.CutPrefix(strings.TrimSuffix(p.text, ">"), "<0x")
		v, err := strconv.ParseUint(hex, 16, 8)
		if !ok || err != nil {
			return nil, fmt.Errorf("byte piece %d is %q, want <0x00> to <0xFF>", i, p.text)
		}
		ids[v] = int32(i)
		found++
	}
	if found != len(ids) {
		return nil, fmt.Errorf("byte fallback needs %d byte pieces, found %d", len(ids), found)
	}
	return &ids, nil
}

// VocabSize returns the number of pieces; ids are 0 to VocabSize()-1.
func (m *Model) VocabSize() int { return len(m.pieces) }

// Piece returns the text of an id as in the vocabulary (spaces are U+2581), or "" for an id out of range.
func (m *Model) Piece(id int32) string {
	if id < 0 || int(id) >= len(m.pieces) {
		return ""
	}
	return m.pieces[id].text
}

// PadID returns the id of the padding piece, or -1 if the model has none.
func (m *Model) PadID() int32 { return m.pad }

// EOSID returns the id of the end-of-text piece, or -1 if the model has none.
func (m *Model) EOSID() int32 { return m.eos }

// UnknownID returns the id for characters that no piece covers.
func (m *Model) UnknownID() int32 { return m.unk }

package sentencepiece

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// message builds protocol buffer messages for the tests.
type message []byte

func (m message) varint(number protowire.Number, v uint64) message {
	m = protowire.AppendTag(m, number, protowire.VarintType)
	return binary.AppendUvarint(m, v)
}

func (m message) bytes(number protowire.Number, v []byte) message {
	m = protowire.AppendTag(m, number, protowire.BytesType)
	return append(binary.AppendUvarint(m, uint64(len(v))), v...)
}

func (m message) float(number protowire.Number, v float32) message {
	m = protowire.AppendTag(m, number, protowire.Fixed32Type)
	return binary.LittleEndian.AppendUint32(m, math.Float32bits(v))
}

func (m message) piece(text string, score float32, kind pieceType) message {
	return m.bytes(1, message{}.bytes(1, []byte(text)).float(2, score).varint(3, uint64(kind)))
}

// trainer is a trainer specification with one field.
func trainer(number protowire.Number, v uint64) message {
	return message{}.bytes(2, message{}.varint(number, v))
}

func charsmapOf(units []uint32, blob string) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(4*len(units)))
	for _, u := range units {
		b = binary.LittleEndian.AppendUint32(b, u)
	}
	return append(b, blob...)
}

func withCharsmap(rules []byte) message {
	return message{}.piece("<unk>", 0, unknown).bytes(3, message{}.bytes(2, rules))
}

func TestLoadRefuses(t *testing.T) {
	base := slices.Clip(message{}.piece("<unk>", 0, unknown))
	long := strings.Repeat("a", 2000)
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"empty file":        {nil, "no piece is the unknown piece"},
		"text file":         {[]byte("hello, world\n"), "wire type"},
		"cut short":         {base[:len(base)-1], "cut short"},
		"group wire type":   {message{0x0b}, "wire type"},
		"BPE":               {append(base, trainer(3, 2)...), "2 (BPE)"},
		"word":              {append(base, trainer(3, 3)...), "3 (word)"},
		"no unknown":        {message{}.piece("a", 0, normal), "no piece is the unknown"},
		"two unknown":       {base.piece("x", 0, unknown), "both the unknown"},
		"twice the same":    {base.piece("a", 0, normal).piece("a", 1, normal), `both "a"`},
		"empty piece":       {base.piece("", 0, normal), "piece 1: it is empty"},
		"long piece":        {base.piece(strings.Repeat("a", maxPieceBytes+1), 0, normal), "1025 bytes"},
		"NaN":               {base.piece("a", float32(math.NaN()), normal), "NaN"},
		"piece type":        {base.piece("a", 0, 9), "type 9"},
		"byte fallback":     {append(base, trainer(35, 1)...), "256 byte pieces"},
		"charsmap short":    {withCharsmap([]byte{1}), "charsmap"},
		"charsmap size":     {withCharsmap([]byte{255, 255, 255, 255, 0}), "charsmap"},
		"charsmap no end":   {withCharsmap(charsmapOf([]uint32{0}, "abc")), "has no end"},
		"charsmap long":     {withCharsmap(charsmapOf([]uint32{0}, long+"\x00")), "longer than"},
		"larger than limit": {make([]byte, maxModelBytes+1), "limit 33554432"},
	} {
		_, err := Load(c.data)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error is %v, want one with %q", name, err, c.want)
		}
	}
}

// A character trie that points outside of itself or its text must only lose its rules.
func TestCharsmapPointsOutside(t *testing.T) {
	const leaf, ofA = 1 << 8, 'a'
	for name, units := range map[string][]uint32{
		"root":  {0x1fffff << 10},
		"child": {ofA << 10, 0},
		"value": append(make([]uint32, ofA), ofA|leaf, 1<<31|0x7fffffff),
	} {
		m, err := Load(withCharsmap(charsmapOf(units, "x\x00")))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if ids := m.Encode("a b"); len(ids) != 1 || ids[0] != 0 {
			t.Errorf("%s: Encode = %v, want one unknown", name, ids)
		}
	}
}

func TestModelFacts(t *testing.T) {
	m := loadTest(t, "t5")
	if m.VocabSize() != 8000 || m.PadID() != 0 || m.EOSID() != 1 || m.UnknownID() != 2 {
		t.Errorf("size %d pad %d eos %d unk %d", m.VocabSize(), m.PadID(), m.EOSID(), m.UnknownID())
	}
	for id, want := range map[int32]string{0: "<pad>", 3: "\u2581", -1: "", 8000: ""} {
		if got := m.Piece(id); got != want {
			t.Errorf("Piece(%d) = %q, want %q", id, got, want)
		}
	}
	if id := loadTest(t, "suffix").PadID(); id != -1 {
		t.Errorf("PadID of a model without one is %d", id)
	}
}

// Unused pieces are in the vocabulary but never chosen, and do not cover their character.
func TestUnusedPieces(t *testing.T) {
	m, err := Load(message{}.piece("<unk>", 0, unknown).piece("\u2581", -1, normal).piece("a", -2, unused).
		piece("b", -2, normal).piece("ab", -1, unused))
	if err != nil {
		t.Fatal(err)
	}
	if got := m.Encode("ab"); len(got) != 3 || got[0] != 1 || got[1] != 0 || got[2] != 3 {
		t.Errorf("Encode = %v, want [1 0 3]", got)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte(message{}.piece("<unk>", 0, unknown).piece("\u2581a", -1, normal)), "a b\x00\xff")
	f.Add([]byte(withCharsmap(charsmapOf([]uint32{1 << 10, 'a' | 1<<8, 1 << 31}, "x\x00"))), "aab")
	f.Add([]byte(message{}.piece("<unk>", 0, unknown).piece("ab", 3, userDefined).
		bytes(2, message{}.varint(24, 1)).bytes(3, message{}.varint(4, 0).varint(5, 0))), " ab  ab ")
	f.Add([]byte(jsonSeed), "a b")
	f.Fuzz(func(t *testing.T, data []byte, text string) {
		if IsJSON(data) {
			if tok, err := LoadJSON(data); err == nil {
				tok.EncodeCut(text, 7)
			}
			return
		}
		m, err := Load(data)
		if err != nil {
			return
		}
		for _, id := range m.Encode(text) {
			if m.Piece(id) == "" {
				t.Errorf("id %d has no piece", id)
			}
		}
	})
}

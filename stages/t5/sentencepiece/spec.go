package sentencepiece

import (
	"fmt"
	"math"
)

// pieceType is ModelProto.SentencePiece.Type.
type pieceType uint8

const (
	normal      pieceType = 1
	unknown     pieceType = 2
	control     pieceType = 3
	userDefined pieceType = 4
	unused      pieceType = 5
	byteValue   pieceType = 6
)

type vocabPiece struct {
	text  string
	score float32
	kind  pieceType
}

// Numbers of TrainerSpec.model_type.
const unigram = 1

var modelTypes = map[uint64]string{1: "unigram", 2: "BPE", 3: "word", 4: "char"}

// spec is the part of a ModelProto that encoding depends on.
type spec struct {
	pieces                          []vocabPiece
	modelType                       uint64
	unkPiece, eosPiece, padPiece    string
	byteFallback, spaceSuffix       bool
	charsmap                        []byte
	dummyPrefix, trimSpace, escapes bool
}

// parseSpec parses a ModelProto: pieces in field 1, trainer in 2, normaliser in 3. Other fields (self test, denormaliser) do
// not affect encoding.
func parseSpec(data []byte) (*spec, error) {
	s := &spec{
		modelType: unigram, unkPiece: "<unk>", eosPiece: "</s>", padPiece: "<pad>",
		dummyPrefix: true, trimSpace: true, escapes: true,
	}
	err := eachField(data, func(f field) error {
		switch f.number {
		case 1:
			return s.addPiece(f.data)
		case 2:
			return eachField(f.data, s.trainerField)
		case 3:
			return eachField(f.data, s.normalizerField)
		}
		return nil
	})
	return s, err
}

func (s *spec) addPiece(message []byte) error {
	if len(s.pieces) == maxPieces {
		return fmt.Errorf("more than %d pieces", maxPieces)
	}
	p := vocabPiece{kind: normal}
	err := eachField(message, func(f field) error {
		switch f.number {
		case 1:
			p.text = string(f.data)
		case 2:
			p.score = math.Float32frombits(uint32(f.bits))
		case 3:
			if f.bits < uint64(normal) || f.bits > uint64(byteValue) {
				return fmt.Errorf("type %d is none of 1 to 6", f.bits)
			}
			p.kind = pieceType(f.bits)
		}
		return nil
	})
	if err == nil {
		err = p.check()
	}
	if err != nil {
		return fmt.Errorf("piece %d: %w", len(s.pieces), err)
	}
	s.pieces = append(s.pieces, p)
	return nil
}

func (p vocabPiece) check() error {
	if p.text == "" {
		return fmt.Errorf("it is empty")
	}
	if len(p.text) > maxPieceBytes {
		return fmt.Errorf("it has %d bytes, the limit is %d", len(p.text), maxPieceBytes)
	}
	if score := float64(p.score); math.IsNaN(score) || math.IsInf(score, 0) {
		return fmt.Errorf("score of %q is %v", p.text, p.score)
	}
	return nil
}

func (s *spec) trainerField(f field) error {
	switch f.number {
	case 3:
		s.modelType = f.bits
	case 24:
		s.spaceSuffix = f.bits != 0
	case 35:
		s.byteFallback = f.bits != 0
	case 45:
		s.unkPiece = string(f.data)
	case 47:
		s.eosPiece = string(f.data)
	case 48:
		s.padPiece = string(f.data)
	}
	return nil
}

func (s *spec) normalizerField(f field) error {
	switch f.number {
	case 2:
		s.charsmap = f.data
	case 3:
		s.dummyPrefix = f.bits != 0
	case 4:
		s.trimSpace = f.bits != 0
	case 5:
		s.escapes = f.bits != 0
	}
	return nil
}

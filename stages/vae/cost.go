package vae

import (
	"latentbeam/schemas"
	"latentbeam/stages/cost"
)

// Cost is that of all frames of all clips, of which devices decode a group each.
func (s *decodeStage) Cost(row *schemas.PromptRow) (cost.Estimate, error) {
	work, calls, err := s.Config.DecodeWork(row.NumFrames, row.Height, row.Width, s.micro)
	all, _ := s.Bytes(s.Config.DType)
	return cost.Estimate{Weights: all, Work: work * float64(max(1, row.Loop)), Calls: calls * int64(max(1, row.Loop)),
		Pieces: s.pieces(row)}, err
}

// Cost is that of all frames of a clip, of which devices encode some rows each.
func (s *encodeStage) Cost(row *schemas.PromptRow) (cost.Estimate, error) {
	work, calls, err := s.Config.EncodeWork(row.NumFrames, row.Height, row.Width, s.micro)
	all, _ := s.Bytes(s.Config.DType)
	return cost.Estimate{Weights: all, Work: work, Calls: calls, Pieces: s.pieces(row)}, err
}

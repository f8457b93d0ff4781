package vae

import (
	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/cost"
	"latentbeam/stages/nn"
	"latentbeam/stages/weight"
)

// Cost is that of all frames of all clips, of which devices decode a group each.
func (s *decodeStage) Cost(row *schemas.PromptRow) (cost.Estimate, error) {
	work, calls, err := s.Config.decodeWork(row.NumFrames, row.Height, row.Width, s.micro)
	all, _ := s.Bytes(s.Config.DType)
	return cost.Estimate{Weights: all, Work: work * float64(max(1, row.Loop)), Calls: calls * int64(max(1, row.Loop)),
		Pieces: s.Config.piecesOf(row)}, err
}

// Cost is that of all frames of a clip, of which devices encode some rows each.
func (s *encodeStage) Cost(row *schemas.PromptRow) (cost.Estimate, error) {
	work, calls, err := s.Config.encodeWork(row.NumFrames, row.Height, row.Width, s.micro)
	all, _ := s.Bytes(s.Config.DType)
	return cost.Estimate{Weights: all, Work: work, Calls: calls, Pieces: s.pieces(row)}, err
}

// encodeWork returns the FLOP of Encode, and its calls.
func (c Config) encodeWork(frames, height, width, micro int) (flop float64, calls int64, err error) {
	m, err := Load(c, weight.ShapesOnly())
	if err != nil {
		return 0, 0, err
	}
	return nn.Work(func(be kernels.Backend) error {
		_, err := m.Encode(be, frames, height, width, micro, nil, func([]float32, int, int) error { return nil })
		return err
	})
}

// decodeWork returns the FLOP of Decode, and its calls.
func (c Config) decodeWork(frames, height, width, micro int) (flop float64, calls int64, err error) {
	shape, err := c.LatentShape(frames, height, width)
	if err != nil {
		return 0, 0, err
	}
	m, err := Load(c, weight.ShapesOnly())
	if err != nil {
		return 0, 0, err
	}
	return nn.Work(func(be kernels.Backend) error {
		return m.Decode(be, stages.NewArray(shape...), frames, micro, func([]float32) {})
	})
}

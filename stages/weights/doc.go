// Package weights holds Weights, the only way a model reads its checkpoint: by published tensor name, with the expected
// shape, every misfit collected into one error. A rank may have a part of them (Cut, PipelineStage), and what a device has no room
// for passes through its memory (Flow).
package weights

// Package weights provides Weights, through which models read their checkpoints: by published tensor name and expected shape.
// All misfits are collected into one error. A rank may load a part of the weights (Cut, PipelineStage), and weights that do not
// fit a device are streamed block by block (Flow).
package weights

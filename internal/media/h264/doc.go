// Package h264 is a small H.264 encoder in plain Go: Constrained Baseline profile, 4:2:0, CAVLC,
// one reference picture, constant quantiser, closed GOPs that are encoded in parallel.
//
// Macroblocks are Intra_16x16, P_L0_16x16 (quarter-sample motion), P_Skip and, if a macroblock would exceed the size that the
// standard allows, I_PCM. There is no deblocking filter and no rate control.
//
// All arithmetic is integer and every GOP is independent, so the bytes do not depend on the number of goroutines or on the
// machine. The encoder computes the pictures that a decoder will show (the reconstruction) and returns them; tests prove that
// they equal a foreign decoder's output byte for byte.
//
// Clauses, tables and equations in the comments refer to ITU-T Rec. H.264.
//
// The package does not know containers (internal/media muxes), RGB, files, or other packages of this project. To add a coding
// tool, write one file for the tool, its choice in macroblock.go, and its syntax in CAVLC order.
package h264

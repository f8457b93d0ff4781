package rng

import (
	"crypto/sha256"
	"encoding/binary"
)

// seedBits keeps derived seeds exact in every reader of our tables, JSON and JavaScript included.
const seedBits = 53

// SeedFor derives the seed of a row that has none of its own, from the job's seed and the prompt: the
// first 53 bits of SHA-256("latentbeam seed 1\n", job seed as 8 bytes big-endian, prompt). So a table
// is diverse by default, and neither the order of rows nor other rows matter.
func SeedFor(jobSeed int64, prompt string) int64 {
	text := []byte("latentbeam seed 1\n")
	text = binary.BigEndian.AppendUint64(text, uint64(jobSeed))
	sum := sha256.Sum256(append(text, prompt...))
	return int64(binary.BigEndian.Uint64(sum[:]) >> (64 - seedBits))
}

package rng

import (
	"crypto/sha256"
	"encoding/binary"
)

// seedBits is the number of bits that every reader of our tables stores exactly, including JSON and JavaScript.
const seedBits = 53

// SeedFor derives the seed of a row without a seed from the job's seed and the prompt: the first 53 bits of SHA-256("latentbeam
// seed 1\n", job seed as 8 bytes big-endian, prompt). So rows get different seeds by default, and a row's seed does not depend
// on other rows or their order.
func SeedFor(jobSeed int64, prompt string) int64 {
	text := []byte("latentbeam seed 1\n")
	text = binary.BigEndian.AppendUint64(text, uint64(jobSeed))
	sum := sha256.Sum256(append(text, prompt...))
	return int64(binary.BigEndian.Uint64(sum[:]) >> (64 - seedBits))
}

// Package rng generates all random numbers. They are a pure function of (seed, sample, step, element), so noise does not depend
// on batches, workers or the order of computation.
//
// Steps: the initial noise of a latent is step 0, the noise of sampler step k is step k+1, and the noise that step adds to
// given frames is step k+1 with the bit Given. Samples that autoencoders draw are steps from 2^31 on. Elements are counted in
// row-major order of one element's own unpadded latent. The package has no state, no clock and no global generator, and must
// not get one. Another distribution is another function of philox.
//
// The package is not under internal because models and jobs of this program share it. But it is not public
// (internal/dev/layers/public_test.go): it may change at any time.
package rng

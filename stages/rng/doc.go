// Package rng is where all randomness comes from: numbers that are a pure function of (seed, sample, step,
// element), so that noise depends on no batch, no worker and no order of computation.
//
// Steps: the initial noise of a latent is step 0, the noise of sampler step k is step k+1, and what it puts on
// given frames is step k+1 with the bit Given; the samples that autoencoders draw are steps from 2^31 on.
// Elements are counted in the row-major order of one element's own unpadded latent. There is no state here, no
// clock and no global generator, and none may come; another distribution is another function of philox.
//
// It is not under internal because models and jobs of this program share it, but it is no part of the public face
// (internal/dev/layers/public_test.go): it may change at any time.
package rng

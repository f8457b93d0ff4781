// Package schedule says who gets which devices when: how large batches are, which batch goes next, on how many and
// which devices, and whether batches become one. It computes from what it is told and from the time that its Clock
// says; it starts nothing. A run, a plan and a simulation go through the same code, on the clock that each of them has.
package schedule

// Package schedule decides how large batches are, which batch runs next, on how many and which devices, and whether waiting
// batches are combined into one. It only computes, from what callers report and from the time of its Clock; it runs no stage.
// A run, a plan and a simulation use the same code, each with its own clock.
package schedule

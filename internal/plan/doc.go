// Package plan is the pure arithmetic of resources: how many elements fit a batch. It reads no clock,
// no device and no file; what it needs to know comes in as numbers.
package plan

// Package recovery decides how a batch goes on after an attempt at it: tried again, in halves, on more or on fewer
// devices, with weights that pass through memory, each element alone, once more on other hardware, or as failures. It
// runs nothing; the engine makes the attempts.
package recovery

// Package recovery decides what follows a failed attempt at a batch. The batch may be tried again, in halves, on more or
// fewer devices, with weights that pass through memory, element by element, or on other hardware. Else its elements fail.
// The package runs nothing; the engine makes the attempts.
package recovery

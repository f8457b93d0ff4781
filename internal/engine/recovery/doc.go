// Package recovery decides what follows a failed attempt at a batch. The batch may be tried again, in halves, on more or
// fewer devices, with streamed weights, element by element, or on other hardware. Otherwise its elements fail.
// The package runs nothing; the engine makes the attempts.
package recovery

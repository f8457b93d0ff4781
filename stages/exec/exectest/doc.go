// Package exectest is a program for tests of the stage `exec`: the test binary starts itself as the program. It does
// its work well, and misbehaves where a prompt asks for it.
package exectest

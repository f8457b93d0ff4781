// Package exectest is a program for tests of the stage `exec`. The test binary starts itself as that program. It works
// correctly, but misbehaves where a prompt asks for it.
package exectest

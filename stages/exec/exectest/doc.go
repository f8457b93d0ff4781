// Package exectest is a program for tests of the stage `exec`. The test binary starts itself as that program. It works
// correctly unless a prompt asks it to misbehave.
package exectest

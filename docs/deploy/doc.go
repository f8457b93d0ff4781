// Package deploy has no code: it holds the recipes of this directory, and tests that check them. It is a module of its
// own, so that the program needs none of the libraries.
package deploy

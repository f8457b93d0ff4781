// Package deploy holds recipes for clusters, and tests that check the recipes. It has no other code. It is a module of
// its own, so that the program does not depend on the libraries of these tests.
package deploy

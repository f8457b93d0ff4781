// Package layers holds the house plan: the floor of each package, and its allowed imports. It has no code, only the
// test that checks the plan. A new package gets its place in layers_test.go.
package layers

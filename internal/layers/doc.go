// Package layers holds the house plan: which package stands on which floor and what it may import. It
// has no code, only the test that checks the plan. A new package gets its place in layers_test.go.
package layers

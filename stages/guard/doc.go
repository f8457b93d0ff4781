// Package guard has the stage that checks results before they are published and fails rows with unusable results. To add a
// check, add it to the list in guard.go.
package guard

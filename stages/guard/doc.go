// Package guard holds the stage that looks at results before they are published and fails the rows
// whose result is not worth keeping. To add a check, add it to the list in guard.go.
package guard

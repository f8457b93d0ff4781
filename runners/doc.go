// Package runners starts Beam pipelines: one file for each runner, one visible list of them. To add a
// runner, write a file with its function, add it to the list in runner.go and let it pass the shared
// suite in pipelines.
package runners

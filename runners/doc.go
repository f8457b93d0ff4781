// Package runners runs Beam pipelines. It has one file for each runner and lists them in runner.go. To add a runner, write a file with
// its function, add it to the list and make it pass the shared suite in pipelines/suites/runners.
package runners

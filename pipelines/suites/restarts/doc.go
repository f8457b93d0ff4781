// Package restarts contains only tests: jobs that are stopped or killed and run again. No row is lost, doubled or computed twice.
package restarts

// Package restarts holds no code: its tests are about jobs that are stopped, killed and run again: nothing is lost, doubled or computed twice.
package restarts

// Package damage holds no code: its tests are about what a job does about files of its output and input that are damaged, gone or foreign.
package damage

// Package programs holds no code: its tests are about programs of users as stages of jobs.
package programs

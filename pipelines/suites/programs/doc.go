// Package programs contains only tests: programs of users as stages of jobs.
package programs

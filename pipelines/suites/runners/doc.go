// Package runners contains only tests: every runner executes the same jobs with equal results, with workers in this process and in others.
package runners

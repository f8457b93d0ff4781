// Package runners holds no code: its tests are about the runners: each passes the same jobs and gives the same bytes, with workers in this process and in others.
package runners

// Package pipelines holds whole jobs: a configuration becomes opened stages, an output and a Beam
// pipeline, and a report at the end. To add a kind of job, add stages to the catalogue; this package
// only changes when the course of a job does.
package pipelines

// Package pipelines runs whole jobs. It reads a configuration, opens the stages and the output, runs a Beam
// pipeline, and writes a report. A new kind of job needs only new stages in the catalogue: this package
// changes only when the sequence of these steps changes.
package pipelines

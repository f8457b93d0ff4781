// Package stages defines what a model must provide to be part of a job: the kinds of data between stages, the elements that
// carry them, the Stage interface, and a check that neighbouring stages fit together.
//
// It contains no model (see stages/t5, stages/stdit and others) and does not know Beam. To add a stage, write a package beside
// stages/t5 that returns a Spec, and add it to the list in stages/catalog.
package stages

// Package stages holds what a model must offer to be part of a job: the kinds of things between stages, the elements
// that carry them, the Stage interface, and a check that neighbouring stages fit together.
//
// No model lives here (stages/t5, stages/stdit, ... do) and nothing of Beam may enter. To add a stage,
// write a package beside stages/t5 that returns a Spec and add it to the list in stages/catalog.
package stages

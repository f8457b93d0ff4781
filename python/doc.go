// Package python holds the Python package latentbeam-stage, so that `init --template exec` can write it beside a job.
package python

import _ "embed"

// Stage is the module latentbeam_stage as one file.
//
//go:embed latentbeam-stage/src/latentbeam_stage/__init__.py
var Stage string

// Package layout chooses how the devices of a job share its work: how wide the worker sets are, how many elements a set takes,
// how frames are partitioned, and where weights are stored. It predicts the time of every candidate from the plan that would
// run, so `latentbeam plan` and `latentbeam run` agree.
//
// All functions are pure: they do not use devices, files, clocks or models. A GPU is one line of the table in device.go.
//
// The package is not under internal because models and jobs of this program share it. But it is not public
// (internal/dev/layers/public_test.go): it may change at any time.
package layout

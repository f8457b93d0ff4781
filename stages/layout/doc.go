// Package layout chooses how the devices of a job share its work: how wide the worker sets are, how many
// elements a set takes, how frames are partitioned, and what lies in which memory. It predicts the time of
// every candidate with the very plan that would run, so `latentbeam plan` and `latentbeam run` agree.
//
// Everything is a pure function of numbers that come in: no device, file, clock or model may enter. A GPU is
// one line of the table in device.go.
//
// It is not under internal because models and jobs of this program share it, but it is no part of the public face
// (internal/dev/layers/public_test.go): it may change at any time.
package layout

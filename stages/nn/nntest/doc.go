// Package nntest makes weights and reads golden numbers for the tests of models, so that a model can be
// checked against a reference without a weight file: every value is a hash of its tensor's name.
//
// Only tests import it. Backends are tested in kernels/kerneltest.
package nntest

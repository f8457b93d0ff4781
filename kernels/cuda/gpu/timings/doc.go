// Command timings measures whole models on a GPU, ours and PyTorch's in one run, and writes a table and a JSON file
// that can be committed. It lies in the bundle of `make gpu` beside the tests that it asks (stages/nn/nntest.Rounds)
// and torch_models.py.
//
// A new row is a line in rows.go. It computes nothing itself and imports no package of the project.
package main

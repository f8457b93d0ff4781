// Command timings measures whole models on a GPU with this project and with PyTorch in one run, and writes a table and a JSON file that
// can be committed. The bundle of `make gpu` contains it, the tests that it runs (stages/nn/nntest.Rounds) and torch_models.py.
//
// To add a row, add a line to rows.go. The command computes nothing itself and imports no package of this module.
package main

// Package catalog is the one list of the stages that a job can name, and of the families of models whose
// checkpoints are known. To add one, write its package on the floor below and its line here.
package catalog

// Package catalog is the one list of the stages that a job can name. To add a stage, write its package
// on the floor below and its line here.
package catalog

// Package catalog lists all stages that a job can name, and all families of models whose checkpoints can be recognised. To add
// one, write its package and add a line here.
package catalog

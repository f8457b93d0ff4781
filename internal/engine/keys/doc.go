// Package keys computes the keys of rows. A key is a hash of everything that a row's result depends on, written in a fixed form.
// The package also fills in the defaults of a row and decides which rows belong to a shard.
package keys

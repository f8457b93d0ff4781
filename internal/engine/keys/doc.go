// Package keys computes the keys of rows: what a row's result depends on, written in one way and hashed. It also fills in
// the defaults of a row and says which rows are a shard's.
package keys

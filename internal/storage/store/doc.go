// Package store says what an output is to the rest of the program: objects under slash-separated names,
// each of them whole or absent. A directory (internal/storage/store/dir) is one kind of store, a bucket another.
// internal/storage/store/open picks the kind by the address, and internal/storage/store/storetest holds the laws that every
// kind obeys.
//
// What never enters: what an object means (keys, tables, the ledger), and what only one kind of store has.
package store

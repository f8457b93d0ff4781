// Package store defines the interface of an output: objects with slash-separated names, each of them complete or absent. A
// local directory (internal/storage/store/dir) is one kind of store, a bucket is another. internal/storage/store/open chooses
// the kind by the address. internal/storage/store/storetest has the rules that every kind must follow.
//
// The package does not know the meaning of objects (keys, tables, the ledger), and has nothing that only one kind of store
// supports.
package store

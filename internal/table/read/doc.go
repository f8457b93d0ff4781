// Package read reads the tables that a job starts from: prompts in csv, jsonl, parquet or txt. Everything is streamed, so
// memory does not grow with a table. A bad row becomes a record with its error, and reading continues. Errors that make a whole
// table unreadable are found when it is opened, as far as possible; they name the file, the reason and the fix.
//
// Files are not trusted: parquet is read with package pages, and limits.go limits the rest.
//
// The package does not know Beam, models or publishing. To add a format, write its rowReader in read_NAME.go and add it to
// formats.go.
package read

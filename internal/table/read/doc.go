// Package read reads the tables a job starts from: prompts in csv, jsonl, parquet or txt. Everything streams: memory
// does not grow with a table. A bad row is a record with its error and the table goes on; what makes a whole table
// unreadable is found when it is opened, where possible, and names the file, the reason and the fix.
//
// Files are not trusted: parquet goes through package pages, and limits.go bounds the rest.
//
// Never here: Beam, models, publishing. To add a format, write its rowReader in read_NAME.go and name it in
// formats.go.
package read

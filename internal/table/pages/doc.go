// Package pages reads untrusted parquet files. Footers, schemas and pages are checked before the library sees them (guard.go),
// so that a damaged or hostile file gives an error, not a panic or an endless allocation. A Leaf reads the values of one
// column; a damaged page loses only its own rows.
package pages

// Package pages reads parquet files that nobody vouches for. Footers, schemas and pages are checked before the library
// sees them (guard.go), so that a damaged or hostile file ends in an error and not in a panic or an endless
// allocation. A Leaf reads the values of one column; a damaged page costs its own rows and no others.
package pages

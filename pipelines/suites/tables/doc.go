// Package tables contains only tests: rows from input tables to output tables, with bad rows, media and cuts, names, seams between jobs, and shards.
package tables

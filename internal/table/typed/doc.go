// Package typed reads rows of a Go type out of parquet files: whole tables in order (Read), single rows by their place
// (Finder), single tensors by row and column (Tensors). A Cell is a value of a table whose type the table chose.
package typed

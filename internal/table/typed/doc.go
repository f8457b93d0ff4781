// Package typed reads rows of a Go type from parquet files: whole tables in order (Read), single rows by position (Finder),
// single tensors by row and column (Tensors). A Cell is a value whose type the table decides.
package typed

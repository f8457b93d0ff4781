// Package write writes the tables that a job makes: parquet files of streamed rows. Row groups are bounded by bytes,
// and the bytes follow from the rows.
package write

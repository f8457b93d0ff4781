// Package write writes the tables of a job: parquet files of streamed rows. Row groups are limited by bytes, and the bytes of a
// file depend only on its rows.
package write

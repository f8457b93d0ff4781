// Package write writes the tables that a job makes: parquet files whose rows stream, whose row groups are bounded by
// bytes, and whose bytes follow from their rows.
package write

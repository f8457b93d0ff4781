// Package schemas defines one row type for each table of a job: prompts go in; embeddings and latents pass between stages;
// videos and failures come out. Users read these types as parquet and JSON. So every type has a version, and a new column is
// always added at the end of a type.
//
// The package imports only the standard library. It does not read, write, or know models or Beam. To add a table, add a file
// with its row type, its version constant and its Schema and ByteSize methods.
//
// Rows hold only values that follow from the configuration and the input. Facts of a run (when, where and how often something
// was computed) never enter a row, because two runs of one job must write equal tables.
package schemas

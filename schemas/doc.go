// Package schemas holds one row type for every seam of a job: the prompts that go in, the embeddings and
// latents between the stages, the videos and failures that come out. They are the parquet and JSON faces of
// the program, so each carries a version, and a column is only ever added at the end of a type.
//
// Never here: reading, writing, models, Beam; only the standard library. To add a seam, add a file with its
// row type, its version constant and its Schema and ByteSize methods.
//
// Rows hold what follows from the configuration and the input alone. When, where and how often something was
// computed never enters a row: those are run facts, and two runs of one job must write equal tables.
package schemas

// Package tables holds no code: its tests are about rows on their way from input tables to output tables: bad rows, media and cuts, names, seams between jobs, shards.
package tables

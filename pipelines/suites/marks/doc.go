// Package marks contains only tests: marks of synthetic media, signatures, watermarks and licences of outputs.
package marks

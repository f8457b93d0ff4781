// Package marks holds no code: its tests are about marks of synthetic media, signatures, watermarks and licences of outputs.
package marks

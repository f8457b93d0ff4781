// Package config reads the one YAML file that describes a job. It is strict: an unknown key, a wrong type
// or an impossible value is reported with file, line, an excerpt, the reason and the fix, and all of a
// file's problems are reported together.
//
// Never here: what a stage's options mean (a stage decodes its own, see Options), models, Beam, reading
// inputs. To add a key, add a field with its yaml and json tags, its default in newConfig and its bounds
// in validate.go, and a bad file with its message in testdata.
package config

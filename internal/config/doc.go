// Package config reads the YAML file that describes a job. It is strict: it reports an unknown key, a wrong type or an impossible
// value with file, line, an excerpt, the reason and the fix. It reports all problems of a file together.
//
// This package does not know what the options of a stage mean (each stage decodes its own, see Options). It knows nothing of models
// or Beam, and it reads no inputs. To add a key, add a field with its yaml and json tags, its default in newConfig, its bounds in validate.go,
// and a bad file with its message in testdata.
package config

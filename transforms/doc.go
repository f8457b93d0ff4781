// Package transforms contains the Beam transforms: one PTransform for each part of a job (read, key, bucket, a stage,
// publish). Package pipelines or a user's own pipeline connects them.
//
// Beam sends a DoFn to workers as JSON, so a DoFn carries only the job's specification. Heavy
// objects (models, devices, the output) belong to an engine.Engine. Each process opens one engine for each specification and
// stores it in a registry, which is the only global state of the module. Beam types are registered in register.go
// and nowhere else; closures, state, timers and Teardown are not used (they misbehave on some runner).
// To add a transform, write one file with its function and DoFn and register the DoFn.
package transforms

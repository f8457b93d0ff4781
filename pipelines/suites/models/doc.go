// Package models holds no code: its tests are about whole jobs of every family of models, against the numbers of their reference implementations.
package models

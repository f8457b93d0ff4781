// Package scores contains only tests: measures of videos, their columns and limits, and the selection of the best samples.
package scores

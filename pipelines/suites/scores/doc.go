// Package scores holds no code: its tests are about measures of videos: columns, limits, and the best of several samples.
package scores
